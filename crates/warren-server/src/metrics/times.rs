use std::time::Duration;

use super::text::Text;

/// Upper bounds of the classes in which times are counted, in seconds.
const CLASSES: [f64; 10] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

/// Times, counted by class.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Times {
    count: u64,
    seconds: f64,
    classes: [u64; CLASSES.len()],
}

impl Times {
    pub(super) fn add(&mut self, took: Duration) {
        self.count += 1;
        self.seconds += took.as_secs_f64();
        for (class, count) in CLASSES.iter().zip(&mut self.classes) {
            *count += u64::from(took.as_secs_f64() <= *class);
        }
    }

    /// The samples of a histogram whose family is written.
    pub(super) fn write(&self, text: &mut Text, name: &str, labels: &str) {
        let comma = if labels.is_empty() { "" } else { "," };
        let bucket = format!("{name}_bucket");
        for (class, count) in CLASSES.iter().zip(self.classes) {
            text.sample(&bucket, &format!(r#"{labels}{comma}le="{class}""#), count);
        }
        text.sample(&bucket, &format!(r#"{labels}{comma}le="+Inf""#), self.count);
        text.sample(&format!("{name}_sum"), labels, self.seconds);
        text.sample(&format!("{name}_count"), labels, self.count);
    }
}

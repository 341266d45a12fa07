//! Reads how far a builder of root file systems is from what it writes for people: `I: …` for each
//! step, bars such as `  42.00 [====>   ]` that are written over, and everything else.

/// The number of lines that are kept of the program's complaints.
const MOST_COMPLAINTS: usize = 12;

/// Longer lines are cut.
const LONGEST: usize = 4096;

/// A piece of news.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum News<'a> {
    /// A step began.
    Step(&'a str),
    /// So much of the step is done, in percent.
    Share { step: &'a str, percent: u64 },
}

/// A program's words so far.
#[derive(Debug, Default)]
pub(super) struct Telling {
    line: Vec<u8>,
    step: String,
    complaints: Vec<String>,
}

impl Telling {
    /// Takes what came, and tells what is new in it.
    pub(super) fn take(&mut self, bytes: &[u8], told: &mut dyn FnMut(News<'_>)) {
        for byte in bytes {
            // A bar ends where it is written over.
            if matches!(byte, b'\n' | b'\r') {
                let line = std::mem::take(&mut self.line);
                self.line_ended(&String::from_utf8_lossy(&line), told);
            } else if self.line.len() < LONGEST {
                self.line.push(*byte);
            }
        }
    }

    /// The last of what was neither a step nor a bar.
    pub(super) fn end(mut self) -> Vec<String> {
        self.take(b"\n", &mut |_| {});
        self.complaints
    }

    fn line_ended(&mut self, line: &str, told: &mut dyn FnMut(News<'_>)) {
        let line = without_escapes(line);
        let text = line.trim();
        if let Some(step) = text.strip_prefix("I: ") {
            self.step = step.to_owned();
            told(News::Step(step));
        } else if let Some(percent) = share(text) {
            told(News::Share { step: &self.step, percent });
        } else if !text.is_empty() && text != "done" {
            if self.complaints.len() == MOST_COMPLAINTS {
                self.complaints.remove(0);
            }
            self.complaints.push(line.trim_end().to_owned());
        }
    }
}

/// `[status:] 42.00 [bar]`, of which a narrow terminal gets no bar.
fn share(text: &str) -> Option<u64> {
    let before = match text.strip_suffix(']') {
        Some(inner) => inner.rsplit_once(" [")?.0.trim_end(),
        None => text,
    };
    let (status, number) = before.rsplit_once(' ').unwrap_or(("", before));
    if !status.trim_end().is_empty() && !status.trim_end().ends_with(':') {
        return None;
    }
    let (whole, decimals) = number.split_once('.')?;
    let percent = whole.parse().ok()?;
    (decimals.len() == 2 && decimals.bytes().all(|digit| digit.is_ascii_digit()) && percent <= 100)
        .then_some(percent)
}

/// Without colours, and what clears a line.
fn without_escapes(line: &str) -> String {
    let mut parts = line.split("\x1b[");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|letter: char| letter.is_ascii_alphabetic()).map_or(part.len(), |at| at + 1);
        text.push_str(part.get(end..).unwrap_or_default());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<String>, Vec<String>) {
        let (mut telling, mut news) = (Telling::default(), Vec::new());
        // In the smallest pieces, as they may come.
        for byte in text.as_bytes() {
            telling.take(&[*byte], &mut |one| {
                news.push(match one {
                    News::Step(step) => step.to_owned(),
                    News::Share { step, percent } => format!("{percent}% {step}"),
                });
            });
        }
        (news, telling.end())
    }

    #[test]
    fn steps_and_shares_are_told_as_they_come() {
        let (news, complaints) = read(
            "\x1b[32mI: running apt-get update...\x1b[0m\r\n\x1b[2K               0.00 [>      ]\r\
             \x1b[2K              42.57 [===>   ]\r\x1b[2Kdone\r\nI: extracting archives...\n\
             \x1b[2Kextracting:  100.00 [=======]\r\x1b[2Kinstalling:   7.00\r",
        );
        assert_eq!(
            news,
            [
                "running apt-get update...",
                "0% running apt-get update...",
                "42% running apt-get update...",
                "extracting archives...",
                "100% extracting archives...",
                "7% extracting archives...",
            ]
        );
        assert_eq!(complaints, <[String; 0]>::default());
    }

    #[test]
    fn all_else_is_kept_to_explain_a_failure() {
        let (news, complaints) = read(
            "E: Unable to locate package nosuch\nversion 1.25\nW: [x]\n  indented 12.5 [a]\n101.00 [=]\nlast words",
        );
        assert_eq!(news, <[String; 0]>::default());
        assert_eq!(
            complaints,
            [
                "E: Unable to locate package nosuch",
                "version 1.25",
                "W: [x]",
                "  indented 12.5 [a]",
                "101.00 [=]",
                "last words"
            ]
        );
        let many = (0..20).map(|number| format!("E: {number}\n")).collect::<String>();
        assert_eq!(read(&many).1.first().map(String::as_str), Some("E: 8"));
    }
}

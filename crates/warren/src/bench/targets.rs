use serde::Serialize;

use super::report::{Row, find};

/// Where Warren must stand, and whether it does.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Verdict {
    pub(super) target: String,
    pub(super) unit: &'static str,
    pub(super) measured: f64,
    pub(super) must: f64,
    pub(super) aim: Option<f64>,
    pub(super) must_met: bool,
    pub(super) aim_met: Option<bool>,
}

/// Judges what was measured; a target whose figures are missing is left out.
pub(super) fn judge(rows: &[Row]) -> Vec<Verdict> {
    let main = |case: &str, subject: &str| find(rows, case, subject).map(|row| row.figures.main());
    let ratio = |case: &str, one: &str, other: &str| Some(main(case, one)? / main(case, other)?);
    let mut verdicts = Vec::new();
    let mut add = |target: &str, unit, must, aim: Option<f64>, measured: Option<f64>| {
        verdicts.extend(measured.map(|measured| Verdict {
            target: target.to_owned(),
            unit,
            measured,
            must,
            aim,
            must_met: measured <= must,
            aim_met: aim.map(|aim| measured <= aim),
        }));
    };
    let run = "create, run true, destroy";
    add(&format!("{run}: against bubblewrap"), "x", 1.25, Some(1.0), ratio("run_true", "warren", "bwrap"));
    add(&format!("{run}: against crun"), "x", 0.7, None, ratio("run_true", "warren", "crun"));
    add("exec true: against crun exec", "x", 0.4, None, ratio("exec_true", "warren", "crun"));
    let crowds = rows.iter().filter_map(|row| row.case.strip_prefix("idle_memory_"));
    for count in crowds {
        let mib = main(&format!("idle_memory_{count}"), "warren").map(|kib| kib / 1024.0);
        add(&format!("idle memory each, {count} alive"), " MiB", 2.0, Some(1.0), mib);
    }
    let crowd = rows.iter().find_map(|row| row.case.strip_prefix("create_at_"));
    if let Some(count) = crowd {
        let case = format!("create_at_{count}");
        let grown = ratio(&case, "create_last", "create_first");
        add(&format!("last create of {count} against the first"), "x", 2.0, Some(1.2), grown);
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::Figures;

    fn time(case: &str, subject: &str, median_ms: f64) -> Row {
        let figures = Figures::Time { median_ms, p99_ms: median_ms };
        Row { case: case.to_owned(), subject: subject.to_owned(), n: 1, figures }
    }

    #[test]
    fn targets_are_ratios_of_the_same_run() {
        let rows =
            [time("run_true", "warren", 4.4), time("run_true", "bwrap", 4.0), time("run_true", "crun", 8.0)];
        let verdicts = judge(&rows);
        let met: Vec<_> = verdicts.iter().map(|verdict| (verdict.must_met, verdict.aim_met)).collect();
        assert_eq!(met, [(true, Some(false)), (true, None)]);
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        assert_eq!(judge(&[time("run_true", "warren", 4.4)]), []);
    }
}

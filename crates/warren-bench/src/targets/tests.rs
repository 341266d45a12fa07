use std::time::Duration;

use super::figure::Figure;
use super::{judge, missed};
use crate::errand::Tally;
use crate::report::{Bound, Figures, Row, Verdict};

fn row(case: &str, subject: &str, figures: Figures) -> Row {
    Row { case: case.to_owned(), subject: subject.to_owned(), n: 1, figures }
}

fn time(case: &str, subject: &str, median_ms: f64) -> Row {
    row(case, subject, Figures::Time { median_ms, p99_ms: median_ms, uncertain_ms: 0.0 })
}

fn rate(workers: usize, subject: &str, per_second: f64) -> Row {
    let figures = Figures::Rate { per_second, uncertain_per_second: 0.0, windows: vec![per_second; 3] };
    row(&format!("creates_per_second_{workers}"), subject, figures)
}

fn verdict_on<'a>(verdicts: &'a [Verdict], target: &str) -> &'a Verdict {
    let mut found = verdicts.iter().filter(|verdict| verdict.target.contains(target));
    let verdict = found.next().unwrap_or_else(|| panic!("no verdict on {target}: {verdicts:?}"));
    assert!(found.next().is_none(), "two verdicts on {target}");
    verdict
}

fn met(verdicts: &[Verdict], target: &str) -> Option<bool> {
    verdict_on(verdicts, target).must_met
}

#[test]
fn targets_are_ratios_of_the_same_run() {
    let rows = [
        time("run_true", "warren", 4.4),
        time("run_true", "warren_cli", 7.0),
        time("run_true", "warren_cli_net", 11.0),
        time("run_true", "bwrap", 4.0),
        time("run_true", "crun", 8.0),
    ];
    let verdicts = judge(&rows);
    let alone = verdict_on(&verdicts, "`warren run --net none");
    assert_eq!((alone.must_met, alone.aim_met), (Some(true), Some(false)));
    assert_eq!(met(&verdicts, "`warren run -- true`"), Some(false));
    assert_eq!(met(&verdicts, "destroy / bubblewrap"), Some(true));
    assert_eq!(verdicts.len(), 4);
}

#[test]
fn the_server_is_compared_with_the_engine_of_the_same_race() {
    let verdicts = judge(&[
        time("run_true", "warren", 1.0),
        time("http_create_to_first_command", "warren", 14.0),
        time("http_create_to_first_command", "engine", 10.0),
    ]);
    let verdict = verdict_on(&verdicts, "create to first command over HTTP");
    assert!((verdict.measured - 1.4).abs() < 1e-9);
    assert_eq!((verdict.must_met, verdict.aim_met), (Some(true), Some(false)));
    assert_eq!(verdict.command, "--only http_create");
}

#[test]
fn a_rate_may_not_fall_with_workers() {
    let rows = [
        rate(2, "warren", 200.0),
        rate(4, "warren", 196.0),
        rate(8, "warren", 150.0),
        rate(2, "bwrap", 220.0),
        rate(4, "bwrap", 230.0),
        rate(8, "bwrap", 150.0),
    ];
    let verdicts = judge(&rows);
    assert_eq!(met(&verdicts, "2 workers / bubblewrap"), Some(true));
    assert_eq!(met(&verdicts, "4 workers / bubblewrap"), Some(false));
    assert_eq!(met(&verdicts, "8 workers / bubblewrap"), Some(true));
    assert_eq!(met(&verdicts, "4 workers / 2 workers"), Some(true));
    assert_eq!(met(&verdicts, "8 workers / 4 workers"), Some(false));
}

#[test]
fn rates_are_compared_window_by_window() {
    let windows = |counts: [u64; 3]| {
        Figures::rate(&counts.map(|count| Tally { count, elapsed: Duration::from_secs(2) }))
    };
    let judged = |own, other| {
        let case = "creates_per_second_2";
        let verdicts = judge(&[row(case, "warren", windows(own)), row(case, "bwrap", windows(other))]);
        met(&verdicts, "2 workers / bubblewrap")
    };
    // Both had a bad moment.
    assert_eq!(judged([400, 100, 400], [420, 105, 420]), Some(true));
    assert_eq!(judged([400, 100, 400], [500, 125, 500]), Some(false));
    // The window decides who was better.
    assert_eq!(judged([400, 300, 400], [420, 420, 420]), None);
}

#[test]
fn a_burst_is_compared_with_the_best_rate() {
    let case = "http_burst_100";
    let rows = [
        time(case, "warren", 600.0),
        time(case, "engine_2", 550.0),
        time(case, "engine_4", 500.0),
        time(case, "engine_8", 700.0),
    ];
    let verdicts = judge(&rows);
    assert!((verdict_on(&verdicts, "burst of 100").measured - 1.2).abs() < 1e-9);
}

#[test]
fn a_snapshot_is_flat_if_a_gigabyte_takes_as_long_as_ten_megabytes() {
    let rows = |large| {
        [time("snapshot_10mb_1000_files", "warren", 5.0), time("snapshot_1gb_1000_files", "warren", large)]
    };
    assert_eq!(met(&judge(&rows(6.0)), "snapshot of 1 GB"), Some(true));
    assert_eq!(met(&judge(&rows(9.0)), "snapshot of 1 GB"), Some(false));
}

fn alive(level: usize, create: f64, bwrap: f64, memory_mib: f64) -> [Row; 3] {
    let case = format!("growth_alive_{level}");
    [
        time(&case, "create", create),
        time(&case, "bwrap", bwrap),
        row(&case, "server", Figures::Server { memory_mib, core_percent: 0.5 }),
    ]
}

#[test]
fn a_create_may_not_grow_and_memory_not_faster_than_the_number() {
    let grown = |create, bwrap, memory| {
        let rows: Vec<Row> =
            [alive(1, 10.0, 7.0, 30.0), alive(100, create, bwrap, 30.0), alive(500, create, bwrap, memory)]
                .concat();
        judge(&rows)
    };
    assert_eq!(met(&grown(11.0, 7.0, 40.0), "create: 500 alive"), Some(true));
    assert_eq!(met(&grown(13.0, 7.0, 40.0), "create: 500 alive"), Some(false));
    // The whole machine was slower.
    assert_eq!(met(&grown(13.0, 9.0, 40.0), "create: 500 alive"), None);
    assert_eq!(met(&grown(11.0, 7.0, 140.0), "server memory"), Some(true));
    assert_eq!(met(&grown(11.0, 7.0, 160.0), "server memory"), Some(false));
}

#[test]
fn a_long_history_may_not_slow_commands() {
    let rows = [
        time("growth_history_exec", "1", 3.0),
        time("growth_history_exec", "5000", 4.0),
        time("growth_history_blame", "1", 3.0),
        time("growth_history_blame", "1000", 100.0),
        time("growth_history_blame", "5000", 700.0),
    ];
    let verdicts = judge(&rows);
    assert_eq!(met(&verdicts, "exec: 5000 entries"), Some(false));
    let blame = verdict_on(&verdicts, "blame, up to 5000 entries");
    assert_eq!(blame.must_met, Some(false));
    assert!((blame.measured - 1.4).abs() < 1e-9);
}

#[test]
fn what_is_too_uncertain_is_left_open() {
    let keeps = |value, uncertain, bound| Figure { value, uncertain }.keeps(bound, 1.0);
    assert_eq!(keeps(0.5, 0.1, Bound::AtMost), Some(true));
    assert_eq!(keeps(1.5, 0.1, Bound::AtMost), Some(false));
    assert_eq!(keeps(0.9, 0.2, Bound::AtMost), None);
    assert_eq!(keeps(-0.9, 0.2, Bound::AtMost), None);
    assert_eq!(keeps(1.2, 0.1, Bound::AtLeast), Some(true));
    assert_eq!(keeps(0.8, 0.1, Bound::AtLeast), Some(false));
    assert_eq!(keeps(1.1, 0.2, Bound::AtLeast), None);
}

#[test]
fn a_ratio_is_as_uncertain_as_both_its_parts() {
    let one = Figure { value: 12.0, uncertain: 0.36 };
    let ratio = one.over(Figure { value: 10.0, uncertain: 0.4 });
    assert!((ratio.value - 1.2).abs() < 1e-9 && (ratio.uncertain - 0.06).abs() < 1e-9, "{ratio:?}");
}

#[test]
fn what_was_not_measured_is_not_judged() {
    assert_eq!(judge(&[time("run_true", "warren", 4.4)]), []);
}

#[test]
fn only_what_is_certainly_missed_counts() {
    let uncertain = Figures::Time { median_ms: 13.0, p99_ms: 20.0, uncertain_ms: 1.0 };
    let rows = [
        row("rollback", "warren", uncertain),
        time("rollback", "engine", 10.0),
        time("http_exec_true", "warren", 3.0),
        time("http_exec_true", "engine", 2.0),
        time("fork_1", "warren", 10.0),
        time("fork_1", "create", 10.0),
    ];
    let verdicts = judge(&rows);
    let names: Vec<&str> = missed(&verdicts).map(|verdict| verdict.target.as_str()).collect();
    assert_eq!((verdicts.len(), names), (3, vec!["exec over HTTP / engine exec"]));
}

#[test]
fn a_wall_is_judged_by_its_own_runtime_and_by_what_its_kernel_costs() {
    let verdicts = judge(&[
        time("walls_answer_runsc", "warren", 118.0),
        time("walls_answer_runsc", "bare", 100.0),
        time("walls_exec_true", "native", 1.0),
        time("walls_exec_true", "runsc", 14.0),
        time("walls_start_inside", "native", 0.5),
        time("walls_start_inside", "runsc", 10.5),
        time("walls_move_runsc", "move", 90.0),
        time("walls_move_runsc", "native_stop_start", 20.0),
        time("walls_move_runsc", "stop_start", 60.0),
    ]);
    let measured = |target| verdict_on(&verdicts, target).measured;
    assert!((measured("until the agent answers") - 1.18).abs() < 1e-9);
    assert!((measured("exec / native") - 14.0 / 11.0).abs() < 1e-9);
    assert!((measured("move / stop") - 2.25).abs() < 1e-9);
    assert_eq!(met(&verdicts, "exec / native"), Some(true));
    assert_eq!(met(&verdicts, "move / stop"), Some(false));
}

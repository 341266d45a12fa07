use super::{Figure, Target, figure, rate_ratio, ratio};
use crate::report::{Part, Row, Verdict};

/// Workers whose rates are compared with bubblewrap's.
const WORKERS: [usize; 3] = [2, 4, 8];
/// A rate that is lower by less than this part has not fallen.
const NOT_FALLEN: f64 = 0.95;

/// The speed that users meet.
pub(super) fn judge(rows: &[Row]) -> Vec<Verdict> {
    let of = |name: &str, command, must| Target::ratio(Part::Speed, name, command, must);
    let ratio = |case: &str, one: &str, other: &str| ratio(rows, case, one, other);
    let mut verdicts: Vec<Option<Verdict>> =
        vec![
            of("`warren run --net none -- true` / bubblewrap", "--only run_true", 2.0).aim(1.5).judge(ratio(
                "run_true",
                "warren_cli",
                "bwrap",
            )),
            of("`warren run -- true`, default network / bubblewrap", "--only run_true", 2.5)
                .aim(2.0)
                .judge(ratio("run_true", "warren_cli_net", "bwrap")),
            of("create to first command over HTTP / engine", "--only http_create", 1.5)
                .aim(1.3)
                .judge(ratio("http_create_to_first_command", "warren", "engine")),
            of("the same from a warm pool / engine", "--only http_claim", 0.5).aim(0.3).judge(ratio(
                "http_claim",
                "warren",
                "engine",
            )),
            of("exec over HTTP / engine exec", "--only http_exec", 1.4).aim(1.2).judge(ratio(
                "http_exec_true",
                "warren",
                "engine",
            )),
        ];
    verdicts.extend(rates(rows));
    verdicts.extend([
        of("burst of 100 over HTTP / 100 at the engine's best rate", "--only http_burst", 1.2)
            .aim(1.05)
            .judge(burst(rows)),
        of("snapshot of an idle sandbox / engine create", "--only snapshot_idle", 0.5).aim(0.2).judge(ratio(
            "snapshot_idle",
            "warren",
            "engine",
        )),
    ]);
    for (load, name) in [("1gb_1000_files", "1 000"), ("1gb_50000_files", "50 000")] {
        let small = figure(rows, "snapshot_10mb_1000_files", "warren");
        let large = figure(rows, &format!("snapshot_{load}"), "warren");
        let name = format!("snapshot of 1 GB in {name} files / of 10 MB");
        verdicts.push(
            of(&name, "--only snapshot", 1.3).judge(large.zip(small).map(|(one, other)| one.over(other))),
        );
    }
    verdicts.extend([
        of("rollback / engine create", "--only rollback", 1.3)
            .aim(0.7)
            .judge(ratio("rollback", "warren", "engine")),
        of("fork of one, answering / create to first command over HTTP", "--only fork", 1.2)
            .aim(1.0)
            .judge(ratio("fork_1", "warren", "create")),
        of("fork of 100, all answering / burst of 100", "--only fork", 1.2)
            .judge(ratio("fork_100", "warren", "burst")),
        of("first create in a fresh data directory / a later one", "--only first_create", 3.0).judge(ratio(
            "first_create",
            "first",
            "later",
        )),
        of("first `warren run` in a fresh data directory / a later one", "--only first_create", 3.0)
            .judge(ratio("first_run", "first", "later")),
    ]);
    let installs = [
        ("install_pip", "`pip install` of a pure wheel, inside / outside"),
        ("install_npm", "`npm ci` of a small tree, inside / outside"),
        ("install_git", "`git clone` of 10 000 files, inside / outside"),
    ];
    for (case, name) in installs {
        verdicts.push(of(name, "--only installs", 1.3).aim(1.1).judge(ratio(case, "inside", "outside")));
    }
    verdicts.into_iter().flatten().collect()
}

fn rates(rows: &[Row]) -> Vec<Option<Verdict>> {
    let command = "--only creates_per_second";
    let of = |name: String, must| Target::ratio(Part::Speed, name, command, must).at_least();
    let case = |workers: usize| format!("creates_per_second_{workers}");
    let beside = WORKERS.map(|workers| {
        let name = format!("creates per second, {workers} workers / bubblewrap");
        of(name, 0.9).aim(1.0).judge(rate_ratio(rows, (&case(workers), "warren"), (&case(workers), "bwrap")))
    });
    let grown = [(2, 4), (4, 8)].map(|(fewer, more)| {
        let grown = rate_ratio(rows, (&case(more), "warren"), (&case(fewer), "warren"));
        of(format!("creates per second, {more} workers / {fewer} workers"), NOT_FALLEN).judge(grown)
    });
    beside.into_iter().chain(grown).collect()
}

/// A burst against as many made by the engine with the number of workers that suits it best.
fn burst(rows: &[Row]) -> Option<Figure> {
    let case = "http_burst_100";
    let engine = WORKERS.iter().filter_map(|workers| figure(rows, case, &format!("engine_{workers}")));
    let best = engine.min_by(|one, other| one.value.total_cmp(&other.value))?;
    Some(figure(rows, case, "warren")?.over(best))
}

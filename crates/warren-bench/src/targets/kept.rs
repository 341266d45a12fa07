use super::{Figure, Target, figure, ratio};
use crate::report::{Figures, Part, Row, Verdict};

/// Reached before, and to be kept.
pub(super) fn judge(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = engine(rows);
    verdicts.extend(server(rows));
    verdicts.extend(network(rows));
    verdicts.extend(packages(rows));
    verdicts
}

fn target(name: impl Into<String>, command: &'static str, must: f64) -> Target {
    Target::ratio(Part::Kept, name, command, must)
}

fn engine(rows: &[Row]) -> Vec<Verdict> {
    let run = "engine: create, run true, destroy";
    let mut judged = vec![
        target(format!("{run} / bubblewrap"), "--only run_true", 1.25)
            .aim(1.0)
            .judge(ratio(rows, "run_true", "warren", "bwrap")),
        target(format!("{run} / crun"), "--only run_true", 0.7)
            .judge(ratio(rows, "run_true", "warren", "crun")),
        target("engine: exec true / crun exec", "--only exec_true", 0.4).judge(ratio(
            rows,
            "exec_true",
            "warren",
            "crun",
        )),
    ];
    for row in rows {
        let (name, command) = match row.case.as_str() {
            "fork_memory" => (format!("memory of each idle fork, {} alive", row.n), "--only fork"),
            case if case.starts_with("idle_memory_") => {
                (format!("memory of each idle sandbox, {} alive", row.n), "--only idle_memory")
            }
            _ => continue,
        };
        let mib = figure(rows, &row.case, &row.subject).map(|kib| kib.times(1.0 / 1024.0));
        judged.push(target(name, command, 2.0).aim(1.0).unit(" MiB").judge(mib));
    }
    for (case, count, command, must) in lasts(rows) {
        let grown = ratio(rows, case, "create_last", "create_first");
        judged.push(target(format!("last of {count} / the first"), command, must).judge(grown));
    }
    judged.into_iter().flatten().collect()
}

/// Cases with many creates: the name, what there are many of, the command, the most that the last
/// may take against the first.
fn lasts(rows: &[Row]) -> impl Iterator<Item = (&str, String, &'static str, f64)> {
    rows.iter().filter(|row| row.subject == "create_last").filter_map(|row| {
        let case = row.case.as_str();
        if let Some(count) = case.strip_prefix("create_at_") {
            return Some((case, format!("{count} creates, all alive"), "--only create_at_1000", 2.0));
        }
        let count = case.strip_prefix("network_create_at_")?;
        Some((case, format!("{count} creates with a network, all alive"), "--only network_crowd", 1.5))
    })
}

fn server(rows: &[Row]) -> Vec<Verdict> {
    let mut judged = Vec::new();
    for row in rows {
        match row.figures {
            Figures::Server { memory_mib, core_percent } if row.case.starts_with("http_idle_") => {
                let name = format!("server with {} idle sandboxes", row.n);
                let of = |what: &str, must| target(format!("{name}: {what}"), "--only http_idle", must);
                judged.push(of("memory", 150.0).unit(" MiB").judge(Some(Figure::plain(memory_mib))));
                judged.push(of("of a core", 3.0).unit(" %").judge(Some(Figure::plain(core_percent))));
            }
            Figures::Time { median_ms, .. } => {
                let Some(rest) = row.case.strip_prefix("http_restart_") else { continue };
                let (count, ready) = rest.split_once('_').unwrap_or((rest, ""));
                let (what, must) = if ready == "answers" {
                    ("it answers", 2000.0)
                } else {
                    ("all were used again", 15_000.0)
                };
                let name = format!("killed with {count} running: until {what}");
                let figure = Some(Figure::plain(median_ms));
                judged.push(target(name, "--only http_restart", must).unit(" ms").judge(figure));
            }
            _ => {}
        }
    }
    for (case, what) in [("http_upload", "up"), ("http_download", "down")] {
        let name = format!("a file of 1 GiB {what}");
        judged.push(transfer(rows, name, "--only http_files", case, 500.0));
    }
    judged.into_iter().flatten().collect()
}

fn network(rows: &[Row]) -> Vec<Verdict> {
    let over =
        |case: &str, one: &str, other: &str| Some(figure(rows, case, one)?.minus(figure(rows, case, other)?));
    let own = |case: &str| figure(rows, case, "warren");
    let judged = [
        target("create with a network / without", "--only network_create", 1.3).judge(ratio(
            rows,
            "network_create",
            "network_public",
            "network_none",
        )),
        target("bytes out / a bare veth pair", "--only network_traffic", 0.85).at_least().judge(ratio(
            rows,
            "network_send",
            "network_public",
            "bare_veth",
        )),
        target("new connection under names − a direct one", "--only network_traffic", 0.5)
            .unit(" ms")
            .judge(over("network_connect", "network_allow", "network_public")),
        target("request through the port proxy − a direct one", "--only port_request", 0.3)
            .unit(" ms")
            .judge(over("port_request", "proxied", "direct")),
        target("requests to a port, 32 clients", "--only port_requests_per_second", 8000.0)
            .unit(" /s")
            .at_least()
            .judge(own("port_requests_per_second_32")),
        target("500 idle web sockets", "--only port_idle", 20.0)
            .unit(" MiB")
            .judge(own("port_idle_500").map(|each| each.times(500.0 / 1024.0))),
    ];
    judged.into_iter().flatten().collect()
}

fn packages(rows: &[Row]) -> Vec<Verdict> {
    let (e2b, command) = ("E2B's Python package", "--only e2b");
    let own = |case: &str| figure(rows, case, "warren");
    let judged = [
        target(format!("{e2b}: create to first command"), command, 40.0)
            .unit(" ms")
            .judge(own("e2b_create_to_first_command")),
        target(format!("{e2b}: run true"), command, 8.0).unit(" ms").judge(own("e2b_run_true")),
        transfer(rows, format!("{e2b}: 100 MB up"), command, "e2b_upload", 200.0),
        transfer(rows, format!("{e2b}: 100 MB down"), command, "e2b_download", 200.0),
    ];
    judged.into_iter().flatten().collect()
}

fn transfer(rows: &[Row], name: String, command: &'static str, case: &str, must: f64) -> Option<Verdict> {
    target(name, command, must).unit(" MB/s").at_least().judge(figure(rows, case, "warren"))
}

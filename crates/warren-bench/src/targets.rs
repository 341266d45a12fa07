use crate::report::{Figures, Row, Verdict, find};

/// A figure to be judged.
#[derive(Debug, Clone, Copy)]
struct Figure {
    value: f64,
    uncertain: f64,
}

impl Figure {
    fn at_most(self, bound: f64) -> Option<bool> {
        let (least, most) = (self.value - self.uncertain, self.value + self.uncertain);
        if most <= bound && most > 0.0 {
            Some(true)
        } else if least > bound {
            Some(false)
        } else {
            None
        }
    }
}

/// Judges what was measured; a target whose figures are missing is left out.
pub(crate) fn judge(rows: &[Row]) -> Vec<Verdict> {
    let main = |case: &str, subject: &str| find(rows, case, subject).map(|row| row.figures.main());
    let ratio = |case: &str, one: &str, other: &str| {
        Some(Figure { value: main(case, one)? / main(case, other)?, uncertain: 0.0 })
    };
    let mut verdicts = Vec::new();
    let mut add = |target: &str, unit, must, aim: Option<f64>, figure: Option<Figure>| {
        verdicts.extend(figure.map(|figure| Verdict {
            target: target.to_owned(),
            unit,
            measured: figure.value,
            must,
            aim,
            must_met: figure.at_most(must),
            aim_met: aim.and_then(|aim| figure.at_most(aim)),
        }));
    };
    let run = "create, run true, destroy";
    add(&format!("{run}: against bubblewrap"), "x", 1.25, Some(1.0), ratio("run_true", "warren", "bwrap"));
    add(&format!("{run}: against crun"), "x", 0.7, None, ratio("run_true", "warren", "crun"));
    add("exec true: against crun exec", "x", 0.4, None, ratio("exec_true", "warren", "crun"));
    for row in rows {
        if let Figures::Memory { kib_each, uncertain_kib } = row.figures
            && !row.case.starts_with("port_")
        {
            let mib = Figure { value: kib_each / 1024.0, uncertain: uncertain_kib / 1024.0 };
            add(&format!("idle memory each, {} alive", row.n), " MiB", 2.0, Some(1.0), Some(mib));
        }
    }
    let plain = |value: f64| Figure { value, uncertain: 0.0 };
    let own = |case: &str| main(case, "warren").map(plain);
    add("over HTTP, create to first command", " ms", 10.0, Some(5.0), own("http_create_to_first_command"));
    add("over HTTP, burst of 100", " ms", 500.0, Some(250.0), own("http_burst_100"));
    add("over HTTP, exec true", " ms", 2.5, Some(1.5), own("http_exec_true"));
    // Rates are judged as times, so that less is better everywhere.
    let each = own("http_creates_per_second_8").map(|rate| plain(1e3 / rate.value));
    add("over HTTP, create and destroy, 8 clients", " ms each", 5.0, Some(2.5), each);
    for row in rows.iter().filter(|row| row.subject == "warren") {
        if let (Some(load), Figures::Time { median_ms, .. }) =
            (row.case.strip_prefix("snapshot_"), row.figures)
        {
            let target = format!("snapshot of an idle sandbox, {}", load.replace('_', " "));
            add(&target, " ms", 5.0, Some(1.0), Some(plain(median_ms)));
        }
    }
    add("rollback", " ms", 10.0, Some(4.0), own("rollback"));
    add("fork of one, answering", " ms", 10.0, Some(4.0), own("fork_1"));
    add("fork of 100, all answering", " ms", 1000.0, Some(400.0), own("fork_100"));
    add(
        "create with a network: against none",
        "x",
        1.3,
        None,
        ratio("network_create", "network_public", "network_none"),
    );
    if let Some(count) = rows.iter().find_map(|row| row.case.strip_prefix("network_create_at_")) {
        let grown = ratio(&format!("network_create_at_{count}"), "create_last", "create_first");
        add(&format!("last of {count} with a network against the first"), "x", 1.5, None, grown);
    }
    // Rates are judged as times, so that less is better everywhere.
    let slower = ratio("network_send", "bare_veth", "network_public");
    add("bytes out: a bare veth pair against us", "x", 1.0 / 0.85, None, slower);
    let over = |case: &str, one: &str, other: &str| Some(plain(main(case, one)? - main(case, other)?));
    let later = over("network_connect", "network_allow", "network_public");
    add("new connection under names: over a direct one", " ms", 0.5, None, later);
    let later = over("port_request", "proxied", "direct");
    add("request through the port proxy: over a direct one", " ms", 0.3, None, later);
    let each = own("port_requests_per_second_32").map(|rate| plain(1e3 / rate.value));
    add("requests through the port proxy, 32 clients", " ms each", 0.125, None, each);
    let idle = own("port_idle_500").map(|each| plain(each.value * 500.0 / 1024.0));
    add("500 idle web sockets: memory", " MiB", 20.0, None, idle);
    let e2b = "through E2B's Python package";
    add(&format!("{e2b}, create to first command"), " ms", 40.0, None, own("e2b_create_to_first_command"));
    add(&format!("{e2b}, run true"), " ms", 8.0, None, own("e2b_run_true"));
    let gigabyte = |case: &str| own(case).map(|rate| plain(1000.0 / rate.value));
    add(&format!("{e2b}, a gigabyte up"), " s", 5.0, None, gigabyte("e2b_upload"));
    add(&format!("{e2b}, a gigabyte down"), " s", 5.0, None, gigabyte("e2b_download"));
    add("over HTTP, a gigabyte up", " s", 2.0, None, gigabyte("http_upload"));
    add("over HTTP, a gigabyte down", " s", 2.0, None, gigabyte("http_download"));
    for row in rows {
        match row.figures {
            Figures::Server { memory_mib, core_percent } => {
                let name = format!("server with {} idle sandboxes", row.n);
                add(&format!("{name}: memory"), " MiB", 150.0, None, Some(plain(memory_mib)));
                add(&format!("{name}: of a core"), " %", 3.0, None, Some(plain(core_percent)));
            }
            Figures::Time { median_ms, .. } if row.case.starts_with("http_restart_") => {
                let must = if row.case.ends_with("_answers") { 2000.0 } else { 15_000.0 };
                add(&row.case.replace('_', " "), " ms", must, None, Some(plain(median_ms)));
            }
            _ => {}
        }
    }
    if let Some(count) = rows.iter().find_map(|row| row.case.strip_prefix("create_at_")) {
        let grown = ratio(&format!("create_at_{count}"), "create_last", "create_first");
        add(&format!("last create of {count} against the first"), "x", 2.0, Some(1.2), grown);
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(met, [(Some(true), Some(false)), (Some(true), None)]);
    }

    #[test]
    fn what_is_too_uncertain_is_left_open() {
        let figure = |value, uncertain| Figure { value, uncertain };
        assert_eq!(figure(0.5, 0.1).at_most(1.0), Some(true));
        assert_eq!(figure(1.5, 0.1).at_most(1.0), Some(false));
        assert_eq!(figure(0.9, 0.2).at_most(1.0), None);
        assert_eq!(figure(-0.9, 0.2).at_most(1.0), None);
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        assert_eq!(judge(&[time("run_true", "warren", 4.4)]), []);
    }
}

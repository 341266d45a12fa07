use crate::report::{Bound, Figures, Part, Report, Row, Verdict, find};
use crate::screen;

/// The report for people.
pub(crate) fn print(report: &Report) {
    let machine = &report.machine;
    screen::print(&format!(
        "kernel {}, {} processors, {:.1} GiB, {}, cgroup {}, load {}\nwarren {} ({} build)",
        machine.kernel,
        machine.cpus,
        machine.memory_bytes as f64 / f64::from(1 << 30),
        machine.filesystem,
        machine.cgroups,
        machine.load_average,
        machine.warren,
        machine.build,
    ));
    for (name, version) in &machine.versions {
        screen::print(&format!("{name}: {version}"));
    }
    print_targets(report);
    let mut cases: Vec<&str> = report.rows.iter().map(|row| row.case.as_str()).collect();
    cases.dedup();
    for case in cases {
        screen::print("");
        print_case(report, case);
    }
    for skipped in &report.skipped {
        screen::print(&format!("\nwithout {}: {}", skipped.subject, skipped.reason));
    }
    for note in &report.notes {
        screen::print(&format!("\n{note}"));
    }
}

/// The targets, part by part.
fn print_targets(report: &Report) {
    let parts = [(Part::Speed, "SPEED"), (Part::Growth, "GROWTH"), (Part::Kept, "KEPT")];
    for (part, name) in parts {
        let of_part = report.targets.iter().filter(|verdict| verdict.part == part);
        let rows: Vec<_> = of_part.map(verdict).collect();
        if !rows.is_empty() {
            screen::print("");
            screen::print_table([name, "MEASURED", "MUST", "", "AIM", "", "WARREN-BENCH"], &rows);
        }
    }
}

fn print_case(report: &Report, case: &str) {
    let mut rows: Vec<&Row> = report.rows.iter().filter(|row| row.case == case).collect();
    rows.sort_by(|a, b| a.figures.main().total_cmp(&b.figures.main()));
    let most_first = rows.iter().any(|row| matches!(row.figures, Figures::Rate { .. }));
    if most_first {
        rows.reverse();
    }
    // Others are shown against the first of these that is there.
    let own = ["warren", "create_first", "later", "outside", "bwrap", "1"];
    let own = own.iter().find_map(|subject| find(&report.rows, case, subject));
    let own = own.map(|row| row.figures.main());
    let cells = |row: &&Row| {
        let (main, p99) = match row.figures {
            Figures::Time { median_ms, p99_ms, .. } => {
                (format!("{median_ms:>9.2} ms"), format!("{p99_ms:>9.2} ms"))
            }
            Figures::Rate { per_second, uncertain_per_second, .. } => {
                (format!("{per_second:>9.0} /s"), format!("      ± {uncertain_per_second:.0} /s"))
            }
            Figures::Memory { kib_each, uncertain_kib } => {
                (format!("{kib_each:>9.0} KiB"), format!("      ± {uncertain_kib:.0} KiB"))
            }
            Figures::Server { memory_mib, core_percent } => {
                (format!("{memory_mib:>9.1} MiB"), format!("{core_percent:>6.2} % core"))
            }
            Figures::Size { mib } => (format!("{mib:>9.1} MiB"), String::new()),
            Figures::Transfer { mb_per_second, grown_mib, .. } => {
                (format!("{mb_per_second:>9.0} MB/s"), format!("{grown_mib:>5.1} MiB grown"))
            }
        };
        let comparable = !matches!(row.figures, Figures::Server { .. } | Figures::Size { .. });
        let ratio = own.filter(|_| comparable);
        let ratio = ratio.map_or_else(String::new, |own| format!("{:>6.2}x", row.figures.main() / own));
        [row.subject.clone(), main, p99, ratio, format!("{:>6}", row.n)]
    };
    let table: Vec<_> = rows.iter().map(cells).collect();
    let heading = case.to_uppercase();
    screen::print_table([&format!("{heading:<22}"), "   MEDIAN", "      P99", " RATIO", "     N"], &table);
}

fn verdict(verdict: &Verdict) -> [String; 7] {
    let amount = |value: f64| {
        if value.abs() < 100.0 {
            format!("{value:.2}{}", verdict.unit)
        } else {
            format!("{value:.0}{}", verdict.unit)
        }
    };
    let sign = match verdict.bound {
        Bound::AtMost => "≤",
        Bound::AtLeast => "≥",
    };
    let mark = |met: Option<bool>| match met {
        Some(true) => "met".to_owned(),
        Some(false) => "MISSED".to_owned(),
        None => "?".to_owned(),
    };
    [
        verdict.target.clone(),
        format!("{} ± {:.2}", amount(verdict.measured), verdict.uncertain),
        format!("{sign} {}", amount(verdict.must)),
        mark(verdict.must_met),
        verdict.aim.map_or_else(String::new, |aim| format!("{sign} {}", amount(aim))),
        verdict.aim.map_or_else(String::new, |_| mark(verdict.aim_met)),
        verdict.command.to_owned(),
    ]
}

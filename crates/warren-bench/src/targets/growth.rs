use super::{Figure, Target, figure};
use crate::report::{Figures, Part, Row, Verdict, find};

const COMMAND: &str = "--only growth";
/// For what may not grow at all, but for noise.
const FLAT: f64 = 1.2;

/// Growth with the number of sandboxes alive, and with the length of a history.
pub(super) fn judge(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = alive(rows);
    for what in ["exec", "snapshot", "log", "blame", "undo"] {
        let case = format!("growth_history_{what}");
        let of_case = rows.iter().filter(|row| row.case == case);
        let series: Vec<Point> = of_case
            .filter_map(|row| Some((row.subject.parse().ok()?, figure(rows, &case, &row.subject)?)))
            .collect();
        let judged = if what == "exec" {
            flat(what, "entries", &series, 0.0)
        } else {
            linear(what, "entries", &series)
        };
        verdicts.extend(judged);
    }
    verdicts
}

/// A size, and the figure there.
type Point = (usize, Figure);

fn alive(rows: &[Row]) -> Vec<Verdict> {
    let levels: Vec<usize> = rows
        .iter()
        .filter(|row| row.subject == "server")
        .filter_map(|row| row.case.strip_prefix("growth_alive_")?.parse().ok())
        .collect();
    let series = |subject: &str| -> Vec<Point> {
        let at = |level: &usize| Some((*level, figure(rows, &format!("growth_alive_{level}"), subject)?));
        levels.iter().filter_map(at).collect()
    };
    let sweeps: Vec<Point> = levels
        .iter()
        .filter_map(|level| match find(rows, &format!("growth_alive_{level}"), "server")?.figures {
            Figures::Server { core_percent, .. } => {
                Some((*level, Figure { value: core_percent, uncertain: ONE_TICK_PERCENT }))
            }
            _ => None,
        })
        .collect();
    // By as much as bubblewrap changed, the machine did.
    let machine = series("bwrap");
    let drift = ends(&machine).map_or(0.0, |(_, first, last)| (last.over(first).value - 1.0).abs());
    let unit = "alive";
    let judged = [
        flat("create", unit, &series("create"), drift),
        flat("exec", unit, &series("exec"), drift),
        linear("snapshot", unit, &series("snapshot")),
        linear("server memory", unit, &series("server")),
        linear("idle server, of a core", unit, &sweeps),
        linear("catalog", unit, &series("catalog")),
    ];
    judged.into_iter().flatten().collect()
}

/// The kernel counts processor time in hundredths of a second, of twenty.
const ONE_TICK_PERCENT: f64 = 0.05;

fn ends(series: &[Point]) -> Option<(usize, Figure, Figure)> {
    let ((_, first), (most, last)) = (series.first()?, series.last()?);
    (series.len() > 1).then_some((*most, *first, *last))
}

/// The last against the first.
fn flat(what: &str, unit: &str, series: &[Point], drift: f64) -> Option<Verdict> {
    let (most, first, last) = ends(series)?;
    let name = format!("{what}: {most} {unit} / 1");
    Target::ratio(Part::Growth, name, COMMAND, FLAT).judge(Some(last.over(first).blurred(drift)))
}

/// The steepest step: growth of the figure over growth of the size.
fn linear(what: &str, unit: &str, series: &[Point]) -> Option<Verdict> {
    let (most, ..) = ends(series)?;
    let steps = series.windows(2).filter_map(|pair| {
        let [(fewer, before), (more, after)] = pair else { return None };
        let grown = after.over(*before).times(*fewer as f64 / *more as f64);
        grown.value.is_finite().then_some(grown)
    });
    let steepest = steps.max_by(|one, other| one.value.total_cmp(&other.value));
    let name = format!("{what}, up to {most} {unit}: steepest growth / linear");
    Target::ratio(Part::Growth, name, COMMAND, 1.0).judge(steepest)
}

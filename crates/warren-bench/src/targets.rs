//! The targets: ratios of what was measured in one run, so that a slow hour does not count.

mod figure;
mod growth;
mod kept;
mod speed;
mod walls;

#[cfg(test)]
mod tests;

use self::figure::Figure;
use crate::report::{Bound, Figures, Part, Row, Verdict, find};
use crate::statistics::uncertain_mean;

/// Judges what was measured; a target whose figures are missing is left out.
pub(crate) fn judge(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = speed::judge(rows);
    verdicts.extend(growth::judge(rows));
    verdicts.extend(kept::judge(rows));
    verdicts.extend(walls::judge(rows));
    verdicts
}

/// The targets that were certainly missed.
pub(crate) fn missed(verdicts: &[Verdict]) -> impl Iterator<Item = &Verdict> {
    verdicts.iter().filter(|verdict| verdict.must_met == Some(false))
}

/// A target, before anybody knows whether it was reached.
struct Target {
    part: Part,
    name: String,
    command: &'static str,
    unit: &'static str,
    bound: Bound,
    must: f64,
    aim: Option<f64>,
}

impl Target {
    /// Less than so many times something else.
    fn ratio(part: Part, name: impl Into<String>, command: &'static str, must: f64) -> Self {
        Self { part, name: name.into(), command, unit: "x", bound: Bound::AtMost, must, aim: None }
    }

    fn aim(self, aim: f64) -> Self {
        Self { aim: Some(aim), ..self }
    }

    fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    fn at_least(self) -> Self {
        Self { bound: Bound::AtLeast, ..self }
    }

    /// The verdict, if there is a figure.
    fn judge(self, figure: Option<Figure>) -> Option<Verdict> {
        let figure = figure?;
        let (bound, met) = (self.bound, |limit| figure.keeps(self.bound, limit));
        Some(Verdict {
            part: self.part,
            target: self.name,
            command: self.command,
            unit: self.unit,
            measured: figure.value,
            uncertain: figure.uncertain,
            bound,
            must: self.must,
            aim: self.aim,
            must_met: met(self.must),
            aim_met: self.aim.and_then(met),
        })
    }
}

/// The main figure of a subject in a case.
fn figure(rows: &[Row], case: &str, subject: &str) -> Option<Figure> {
    let figures = &find(rows, case, subject)?.figures;
    Some(Figure { value: figures.main(), uncertain: figures.uncertain() })
}

/// One rate against another, window by window, so that what slows both down does not count.
fn rate_ratio(rows: &[Row], one: (&str, &str), other: (&str, &str)) -> Option<Figure> {
    let windows = |(case, subject)| match &find(rows, case, subject)?.figures {
        Figures::Rate { windows, .. } => Some(windows),
        _ => None,
    };
    let each: Vec<f64> = windows(one)?.iter().zip(windows(other)?).map(|(one, other)| one / other).collect();
    let value = figure(rows, one.0, one.1)?.value / figure(rows, other.0, other.1)?.value;
    Some(Figure { value, uncertain: uncertain_mean(&each) })
}

/// One subject against another in the same case.
fn ratio(rows: &[Row], case: &str, one: &str, other: &str) -> Option<Figure> {
    Some(figure(rows, case, one)?.over(figure(rows, case, other)?))
}

use super::{Figure, Target, figure, ratio};
use crate::report::{Part, Row, Verdict};

const COMMAND: &str = "--only walls";

/// OCI runtimes through our backends, against what they cost by themselves.
pub(super) fn judge(rows: &[Row]) -> Vec<Verdict> {
    let of = |name: String, must| Target::ratio(Part::Speed, name, COMMAND, must);
    let mut verdicts = Vec::new();
    for (wall, must) in [("crun", 1.15), ("runc", 1.15), ("runsc", 1.2)] {
        let answer = ratio(rows, &format!("walls_answer_{wall}"), "warren", "bare");
        verdicts.push(of(format!("{wall}: until the agent answers / bare `run true`"), must).judge(answer));
        verdicts.push(of(format!("{wall}: exec / native's, and its kernel"), 1.3).judge(exec(rows, wall)));
        verdicts.push(of(format!("{wall}: move / stop and start"), 2.0).judge(moved(rows, wall)));
    }
    let answer = ratio(rows, "walls_answer_docker", "warren", "bare");
    verdicts.push(of("docker: until the agent answers / `docker run true`".to_owned(), 1.2).judge(answer));
    let memory = ratio(rows, "walls_memory_runsc", "warren", "bare");
    let name =
        "runsc: snapshot with 50 MB of processes, which go on / `runsc checkpoint` and `restore`".to_owned();
    verdicts.push(of(name, 1.5).judge(memory));
    verdicts.into_iter().flatten().collect()
}

/// An exec against native's, to which is added what a start of a program costs more behind the
/// wall than on native.
fn exec(rows: &[Row], wall: &str) -> Option<Figure> {
    let of = |case, subject| figure(rows, case, subject);
    let (own, native) = (of("walls_exec_true", wall)?, of("walls_exec_true", "native")?);
    let more = of("walls_start_inside", wall)?.minus(of("walls_start_inside", "native")?);
    let due = if more.value > 0.0 { native.plus(more) } else { native };
    Some(own.over(due))
}

/// A move against the mean of a stop and start on either side.
fn moved(rows: &[Row], wall: &str) -> Option<Figure> {
    let of = |subject| figure(rows, &format!("walls_move_{wall}"), subject);
    Some(of("move")?.over(of("native_stop_start")?.plus(of("stop_start")?).times(0.5)))
}

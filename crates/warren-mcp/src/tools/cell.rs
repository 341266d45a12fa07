//! Cells of Python, which find what earlier cells of their context defined.

use std::time::Duration;

use rmcp::model::ContentBlock;
use tokio::time::{Instant, timeout_at};
use warren_engine::{Collector, Sandbox};
use warren_face::code::{Event, Service};
use warren_face::error::ApiError;
use warren_wire::api::{CodeOutput, RunCode};

use super::Call;
use super::files::MOST_IMAGE;
use crate::answer::Answer;
use crate::plain::plain;

const LONGEST_CONTEXT: usize = 64;
/// The context that every sandbox has.
const DEFAULT: &str = "default";
/// Pictures of one cell.
const MOST_IMAGES: usize = 8;

/// How a cell is to be run.
pub(super) struct Cell {
    pub(super) code: String,
    pub(super) context: String,
    pub(super) wait: Duration,
    pub(super) most: usize,
}

/// Runs a cell to its end, or interrupts it: nobody could ask for it later.
pub(super) async fn run(call: &Call<'_>, sandbox: &Sandbox, cell: Cell) -> Result<Answer, ApiError> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if cell.context.len() > LONGEST_CONTEXT || !cell.context.bytes().all(letter) {
        return Err(ApiError::invalid("context", "a context is named by up to 64 letters, digits, _ or -"));
    }
    let order = RunCode {
        code: cell.code,
        context: Some(cell.context).filter(|context| context != DEFAULT),
        ..RunCode::default()
    };
    let until = Instant::now() + cell.wait;
    let service = Service { desk: call.desk, sandbox: sandbox.clone() };
    let mut lines = service.execute(&order).await?;
    let mut shown = Shown { text: Collector::new(cell.most), images: Vec::new(), failed: false };
    let ended = loop {
        tokio::select! {
            biased;
            () = call.context.ct.cancelled() => break false,
            event = timeout_at(until, lines.next()) => match event {
                Ok(Ok(Event::EndOfExecution { timed_out })) => break !timed_out,
                Ok(event) => shown.add(event?),
                Err(_) => break false,
            },
        }
    };
    drop(lines);
    Ok(shown.answer(ended, cell.wait).note("sandbox", sandbox.id().as_str()))
}

/// The output of a cell.
struct Shown {
    text: Collector,
    images: Vec<ContentBlock>,
    failed: bool,
}

impl Shown {
    fn add(&mut self, event: Event) {
        match event {
            Event::Stdout(text) | Event::Stderr(text) => self.text.push(text.text.as_bytes()),
            Event::Result(output) => self.show(*output),
            Event::Error(error) => {
                self.failed = true;
                self.text.push(error.traceback.as_bytes());
            }
            Event::NumberOfExecutions { .. } | Event::EndOfExecution { .. } | Event::Unknown => {}
        }
    }

    fn show(&mut self, output: CodeOutput) {
        let pictures = [(output.png, "image/png"), (output.jpeg, "image/jpeg")];
        let picture = pictures.into_iter().find_map(|(data, kind)| Some((data?, kind)));
        match picture {
            Some((data, kind)) if data.len() <= MOST_IMAGE && self.images.len() < MOST_IMAGES => {
                self.images.push(ContentBlock::image(data.trim(), kind));
            }
            _ => {
                let text = output.text.or(output.markdown).or(output.html).unwrap_or_default();
                self.text.push(text.as_bytes());
                self.text.push(b"\n");
            }
        }
    }

    fn answer(self, ended: bool, wait: Duration) -> Answer {
        let (text, cut) = self.text.finish().text();
        let mut answer = Answer::text(plain(&text));
        if self.failed {
            answer = answer.line("[the cell failed]");
        }
        if !ended {
            answer = answer.line(&format!("[interrupted: a cell has {wait:?}]"));
        }
        if cut {
            answer = answer.note("truncated", true);
        }
        self.images.into_iter().fold(answer, Answer::and)
    }
}

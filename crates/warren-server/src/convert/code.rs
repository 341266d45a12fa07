use serde_json::json;
use warren_face::code::Event;
use warren_face::error::ApiError;
use warren_face::sse::Message;
use warren_wire::api;

/// Bytes of one cell.
const MOST_CODE: usize = 4 << 20;

const MOST_ENV: usize = 256;
const LONGEST_TIMEOUT_S: u32 = 86_400;
const LONGEST_CWD: usize = 4096;
const LONGEST_WORD: usize = 64;

/// Bytes of each stream of output, and of everything shown, in an answer.
const MOST_OUTPUT: usize = 4 << 20;
const MOST_SHOWN: usize = 32 << 20;

/// The last message of a stream.
pub(crate) const CODE_END: &str = "end";

/// A cell that can be sent to the service.
pub(crate) fn code_order(body: api::RunCode) -> Result<api::RunCode, ApiError> {
    if body.code.len() > MOST_CODE {
        return Err(ApiError::invalid("code", format!("a cell has at most {MOST_CODE} bytes")));
    }
    if body.context.is_some() && body.language.is_some() {
        return Err(ApiError::invalid("language", "a context has its language; name one of the two"));
    }
    if let Some(context) = &body.context {
        check_word("context", context, |byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))?;
    }
    check_language(body.language.as_deref())?;
    if body.env.len() > MOST_ENV {
        return Err(ApiError::invalid("env", format!("there are at most {MOST_ENV} variables")));
    }
    if !body.timeout_s.is_none_or(|timeout| (1..=LONGEST_TIMEOUT_S).contains(&timeout)) {
        return Err(ApiError::invalid("timeout_s", format!("it is from 1 to {LONGEST_TIMEOUT_S}")));
    }
    Ok(body)
}

pub(crate) fn new_code_context(body: api::NewCodeContext) -> Result<api::NewCodeContext, ApiError> {
    check_language(body.language.as_deref())?;
    if !body.cwd.as_ref().is_none_or(|cwd| (1..=LONGEST_CWD).contains(&cwd.len())) {
        return Err(ApiError::invalid("cwd", format!("it has 1 to {LONGEST_CWD} bytes")));
    }
    Ok(body)
}

fn check_language(language: Option<&str>) -> Result<(), ApiError> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_+#.-".contains(&byte);
    language.map_or(Ok(()), |language| check_word("language", language, letter))
}

fn check_word(field: &str, text: &str, letter: impl Fn(u8) -> bool) -> Result<(), ApiError> {
    if (1..=LONGEST_WORD).contains(&text.len()) && text.bytes().all(letter) {
        return Ok(());
    }
    Err(ApiError::invalid(field, format!("it is a word of at most {LONGEST_WORD} letters")))
}

/// An event as a stream tells it.
pub(crate) fn code_message(event: Event, count: &mut Option<u64>) -> Message {
    match event {
        Event::NumberOfExecutions { execution_count } => {
            *count = Some(execution_count);
            Message::new("started", &api::CodeStarted { execution_count })
        }
        Event::Stdout(text) => Message::new("stdout", &text),
        Event::Stderr(text) => Message::new("stderr", &text),
        Event::Result(output) => Message::new("result", &output),
        // A message `error` says that the stream itself ends early.
        Event::Error(error) => Message::new("exception", &error),
        Event::EndOfExecution { timed_out } => {
            Message::new(CODE_END, &api::CodeEnd { execution_count: *count, timed_out })
        }
        Event::Unknown => Message::new("unknown", &json!({})),
    }
}

/// The result of a cell, as far as it is known and there is room for it.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    result: api::CodeResult,
    /// Bytes that were shown.
    shown: usize,
    ended: bool,
}

impl Collected {
    pub(crate) fn add(&mut self, event: Event) {
        match event {
            Event::NumberOfExecutions { execution_count } => {
                self.result.execution_count = Some(execution_count);
            }
            Event::Stdout(text) => {
                self.result.truncated |= !append(&mut self.result.stdout, &text.text);
            }
            Event::Stderr(text) => {
                self.result.truncated |= !append(&mut self.result.stderr, &text.text);
            }
            Event::Result(output) => self.show(*output),
            Event::Error(error) => self.result.error = Some(error),
            Event::EndOfExecution { timed_out } => {
                self.result.timed_out = timed_out;
                self.ended = true;
            }
            Event::Unknown => {}
        }
    }

    fn show(&mut self, output: api::CodeOutput) {
        self.shown = self.shown.saturating_add(size(&output));
        if self.shown > MOST_SHOWN {
            self.result.truncated = true;
        } else {
            self.result.results.push(output);
        }
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.ended
    }

    pub(crate) fn result(self) -> api::CodeResult {
        self.result
    }
}

/// Says whether there was room for all of it. Where a character was cut out there is room for less
/// than one, and nothing follows.
fn append(output: &mut String, text: &str) -> bool {
    let room = MOST_OUTPUT.saturating_sub(output.len());
    let mut end = if room < char::MAX.len_utf8() { 0 } else { room.min(text.len()) };
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    output.push_str(&text[..end]);
    end == text.len()
}

fn size(output: &api::CodeOutput) -> usize {
    serde_json::to_vec(output).map_or(usize::MAX, |text| text.len())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn text(text: &str) -> api::CodeText {
        api::CodeText { text: text.to_owned() }
    }

    #[test]
    fn an_answer_has_everything_that_fits() {
        let mut collected = Collected::default();
        collected.add(Event::NumberOfExecutions { execution_count: 2 });
        collected.add(Event::Stdout(text("a")));
        collected.add(Event::Stdout(text("b")));
        collected.add(Event::Stderr(text("c")));
        let shown = api::CodeOutput { text: Some("42".to_owned()), ..api::CodeOutput::default() };
        collected.add(Event::Result(Box::new(shown.clone())));
        assert!(!collected.is_whole());
        collected.add(Event::EndOfExecution { timed_out: true });
        assert!(collected.is_whole());
        let expected = api::CodeResult {
            execution_count: Some(2),
            stdout: "ab".to_owned(),
            stderr: "c".to_owned(),
            results: vec![shown],
            timed_out: true,
            ..api::CodeResult::default()
        };
        assert_eq!(collected.result(), expected);
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_said() {
        let mut collected = Collected::default();
        let much = "\u{fc}".repeat(MOST_OUTPUT / 2);
        collected.add(Event::Stdout(text("x")));
        collected.add(Event::Stdout(text(&much)));
        collected.add(Event::Stdout(text("more")));
        let result = collected.result();
        assert!(
            result.truncated && result.stdout.len() < MOST_OUTPUT && result.stdout.starts_with("x\u{fc}")
        );
        let mut collected = Collected::default();
        let picture = api::CodeOutput { png: Some("p".repeat(MOST_SHOWN)), ..api::CodeOutput::default() };
        collected.add(Event::Result(Box::new(picture)));
        assert_eq!((collected.result.truncated, collected.result.results.len()), (true, 0));
    }

    #[test]
    fn orders_that_cannot_be_are_refused_by_field() {
        let refused = |body: api::RunCode| code_order(body).unwrap_err().problem().field.unwrap_or_default();
        let body = api::RunCode::default;
        assert_eq!(refused(api::RunCode { code: "x".repeat(MOST_CODE + 1), ..body() }), "code");
        assert_eq!(refused(api::RunCode { context: Some("a/b".to_owned()), ..body() }), "context");
        assert_eq!(refused(api::RunCode { language: Some("a b".to_owned()), ..body() }), "language");
        let both = api::RunCode { context: Some("a".to_owned()), language: Some("b".to_owned()), ..body() };
        assert_eq!(refused(both), "language");
        assert_eq!(refused(api::RunCode { timeout_s: Some(0), ..body() }), "timeout_s");
        let env: BTreeMap<_, _> = (0..=MOST_ENV).map(|at| (format!("N{at}"), String::new())).collect();
        assert_eq!(refused(api::RunCode { env, ..body() }), "env");
        assert!(code_order(api::RunCode { language: Some("c++".to_owned()), ..body() }).is_ok());
    }
}

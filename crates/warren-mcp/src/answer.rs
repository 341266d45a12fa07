use rmcp::model::{CallToolResult, ContentBlock, MetaObject, Resource};
use serde::Serialize;
use serde_json::Value;
use warren_face::error::ApiError;

/// The result of a tool, on its way to the client. Tools that show text answer text alone: clients
/// that find a record beside it show only that to their model.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    content: Vec<ContentBlock>,
    structured: Option<Value>,
    failed: bool,
    meta: MetaObject,
}

impl Answer {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { content: vec![ContentBlock::text(text)], ..Self::default() }
    }

    /// A record, and the same as text for clients that know only that.
    pub(crate) fn record(record: &impl Serialize) -> Self {
        let value = serde_json::to_value(record).unwrap_or_default();
        Self { structured: Some(value.clone()), ..Self::text(value.to_string()) }
    }

    pub(crate) fn and(mut self, content: ContentBlock) -> Self {
        self.content.push(content);
        self
    }

    /// Also says where the rest is to be read.
    pub(crate) fn link(self, uri: String, name: &str) -> Self {
        self.and(ContentBlock::resource_link(Resource::new(uri, name)))
    }

    /// Adds a line to the last text.
    pub(crate) fn line(mut self, line: &str) -> Self {
        let last = self.content.iter_mut().rev().find_map(|block| match block {
            ContentBlock::Text(text) => Some(&mut text.text),
            _ => None,
        });
        match last {
            Some(text) => {
                if !text.is_empty() && !text.ends_with('\n') {
                    text.push('\n');
                }
                text.push_str(line);
                self
            }
            None => self.and(ContentBlock::text(line)),
        }
    }

    /// Ends with its number in the journal and how to take it back. Without a number nothing was
    /// changed, or nothing could be written down.
    pub(crate) fn entered(self, entry: Option<u64>) -> Self {
        match entry {
            Some(number) => {
                let back = format!("[#{number} · undo(to={}) takes it back]", number.saturating_sub(1));
                self.line(&back).note("entry", number)
            }
            None => self,
        }
    }

    /// The tool did not do what it was asked to.
    pub(crate) fn failed(mut self, failed: bool) -> Self {
        self.failed = failed;
        self
    }

    /// A value for programs, beside what models read.
    pub(crate) fn note(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.meta.insert(format!("warren/{name}"), value.into());
        self
    }

    pub(crate) fn into_result(self) -> CallToolResult {
        let Self { content, structured, failed, meta } = self;
        let mut result =
            if failed { CallToolResult::error(content) } else { CallToolResult::success(content) };
        result.structured_content = structured;
        result.with_meta(Some(meta).filter(|meta| !meta.is_empty()))
    }
}

/// An error as a model reads it: the fact, its code, and the next thing to do.
pub(crate) fn refusal(error: &ApiError) -> CallToolResult {
    error.log();
    let problem = error.problem();
    let told = format!("{}\n[{}: {}]", problem.detail, problem.code, error.code().hint());
    let mut answer = Answer::text(told).failed(true).note("code", problem.code);
    if let Some(field) = problem.field {
        answer = answer.note("field", field);
    }
    if let Some(seconds) = problem.retry_after_s {
        answer = answer.note("retry_after_s", seconds);
    }
    answer.into_result()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(answer: Answer) -> Value {
        serde_json::to_value(answer.into_result()).unwrap_or_default()
    }

    #[test]
    fn a_change_ends_with_how_to_take_it_back() {
        let shown = shown(Answer::text("done").entered(Some(7)).note("exit_code", 0));
        assert_eq!(shown["content"][0]["text"], "done\n[#7 · undo(to=6) takes it back]");
        assert_eq!(shown["_meta"], json!({"warren/entry": 7, "warren/exit_code": 0}));
        assert!(shown.get("structuredContent").is_none());
    }

    #[test]
    fn a_record_is_there_twice_for_clients_of_either_kind() {
        let shown = shown(Answer::record(&json!({"items": [1]})));
        assert_eq!(shown["structuredContent"], json!({"items": [1]}));
        assert_eq!(shown["content"][0]["text"], r#"{"items":[1]}"#);
    }

    #[test]
    fn a_refusal_names_its_code_and_field() {
        let shown =
            serde_json::to_value(refusal(&ApiError::invalid("path", "`path` is empty"))).unwrap_or_default();
        assert_eq!(shown["isError"], true);
        let text = shown["content"][0]["text"].as_str().unwrap_or_default();
        assert!(text.starts_with("`path` is empty\n[invalid_value: "), "{text}");
        assert_eq!(shown["_meta"]["warren/field"], "path");
    }
}

//! Pages as text: the tools of `research`.

use serde_json::{Map, Value, json};
use warren_engine::Visit;

use crate::answer::{Answer, Content};
use crate::{Browser, BrowserError};

const USUAL_CHARS: u64 = 20_000;
const LONGEST_URL: usize = 8192;
/// The characters that are shown of a title and an address.
const MOST_TITLE: usize = 300;

impl Browser {
    pub(crate) async fn fetch(
        &self,
        visit: &Visit,
        arguments: &Map<String, Value>,
    ) -> Result<Answer, BrowserError> {
        let most = number(arguments, "max_chars", 100, 100_000)?.unwrap_or(USUAL_CHARS);
        let url = arguments.get("url").and_then(Value::as_str).unwrap_or_default();
        let is_web = url.starts_with("http://") || url.starts_with("https://");
        if !is_web || url.len() > LONGEST_URL {
            let reason = "`url` begins with http:// or https://".to_owned();
            return Err(BrowserError::Argument { field: "url", reason });
        }
        let opened = self.inner(visit, "browser_navigate", json!({ "url": url })).await?;
        if opened.failed {
            return Ok(opened);
        }
        self.part(visit, 0, most).await
    }

    pub(crate) async fn read(
        &self,
        visit: &Visit,
        arguments: &Map<String, Value>,
    ) -> Result<Answer, BrowserError> {
        let from = number(arguments, "from", 0, 10_000_000)?.unwrap_or(0);
        let most = number(arguments, "max_chars", 100, 100_000)?.unwrap_or(USUAL_CHARS);
        self.part(visit, from, most).await
    }

    async fn part(&self, visit: &Visit, from: u64, most: u64) -> Result<Answer, BrowserError> {
        let end = from.saturating_add(most);
        let function = format!(
            "() => {{ const text = document.body ? document.body.innerText : ''; \
             return {{ title: document.title, url: location.href, total: text.length, \
             text: text.slice({from}, {end}) }}; }}"
        );
        let answer = self.inner(visit, "browser_evaluate", json!({ "function": function })).await?;
        if answer.failed {
            return Ok(answer);
        }
        let read = answer.first_text().and_then(result_of);
        let read = read.ok_or_else(|| self.garbled("a page without text"))?;
        Ok(Answer { files: answer.files, ..Answer::text(told(&read, from)) })
    }
}

/// The value in what the server of tools says of it.
fn result_of(text: &str) -> Option<Value> {
    let rest = text.split_once("### Result\n")?.1;
    // Other headings may follow; inside the value no line begins so.
    let value = rest.split("\n### ").next()?;
    serde_json::from_str(value.trim()).ok()
}

fn told(read: &Value, from: u64) -> String {
    let word = |name: &str| {
        let text = read.get(name).and_then(Value::as_str).unwrap_or_default();
        text.chars().filter(|char| !char.is_control()).take(MOST_TITLE).collect::<String>()
    };
    let text = read.get("text").and_then(Value::as_str).unwrap_or_default();
    let total = read.get("total").and_then(Value::as_u64).unwrap_or(0);
    // The browser counts as JavaScript does.
    let end = from.saturating_add(u64::try_from(text.encode_utf16().count()).unwrap_or(u64::MAX));
    let mut shown = format!("# {}\n{}\n\n{text}", word("title"), word("url"));
    if end < total {
        shown.push_str(&format!("\n[characters {from} to {end} of {total}: read(from={end}) goes on]"));
    }
    shown
}

fn number(
    arguments: &Map<String, Value>,
    field: &'static str,
    least: u64,
    most: u64,
) -> Result<Option<u64>, BrowserError> {
    let Some(value) = arguments.get(field).filter(|value| !value.is_null()) else { return Ok(None) };
    let number = value.as_u64().filter(|number| (least..=most).contains(number));
    let reason = || format!("`{field}` is a whole number from {least} to {most}");
    number.map(Some).ok_or_else(|| BrowserError::Argument { field, reason: reason() })
}

impl Browser {
    /// Remembers which of the tabs is used, as an answer tells it.
    pub(crate) fn note_tab(&self, answer: &Answer) {
        let texts = answer.content.iter().filter_map(|content| match content {
            Content::Text(text) => Some(text.as_str()),
            Content::Image { .. } => None,
        });
        if let Some(tab) = texts.flat_map(str::lines).find_map(current_tab) {
            *self.place.tab.lock() = Some(tab);
        }
    }
}

/// `- 1: (current) [title](url)`
fn current_tab(line: &str) -> Option<usize> {
    let (number, rest) = line.strip_prefix("- ")?.split_once(": ")?;
    rest.starts_with("(current)").then(|| number.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_told_with_where_to_go_on() {
        let text = "### Result\n{\n  \"title\": \"a\\n### b\",\n  \"url\": \"http://x/\",\n  \"total\": 9,\n  \"text\": \"ä𝄞\"\n}\n### Events\n- x";
        let read = result_of(text).unwrap();
        assert_eq!(
            told(&read, 2),
            "# a### b\nhttp://x/\n\nä𝄞\n[characters 2 to 5 of 9: read(from=5) goes on]"
        );
        for none in ["", "### Result\n", "### Result\nundefined", "### Error\nno"] {
            assert_eq!(result_of(none), None, "{none}");
        }
        assert_eq!(told(&json!(7), 0), "# \n\n\n");
    }

    #[test]
    fn numbers_are_checked_by_name() {
        let Value::Object(given) = json!({"from": -1, "max_chars": 100_000_000, "x": null}) else {
            panic!("none")
        };
        for field in ["from", "max_chars"] {
            assert!(matches!(
                number(&given, field, 0, 1000),
                Err(BrowserError::Argument { field: wrong, .. }) if wrong == field
            ));
        }
        assert!(matches!(number(&given, "x", 0, 1), Ok(None)));
    }

    #[test]
    fn the_tab_in_use_is_read_from_the_list() {
        assert_eq!(current_tab("- 1: (current) [two](data:,)"), Some(1));
        assert_eq!(current_tab("- 0: [(current)](x)"), None);
        assert_eq!(current_tab("- x: (current) []"), None);
    }
}

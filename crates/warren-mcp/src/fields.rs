use rmcp::model::JsonObject;
use serde_json::{Map, Value};
use warren_face::error::ApiError;

/// Longest text of an argument that is a name, a path or a word.
const LONGEST_WORD: usize = 4096;
/// How much of an unknown name is repeated.
const LONGEST_TOLD: usize = 80;

/// The arguments of a call, taken out one by one. What nobody took is refused.
#[derive(Debug)]
pub(crate) struct Fields {
    tool: &'static str,
    given: Map<String, Value>,
}

impl Fields {
    /// An argument that is null is one that was left out.
    pub(crate) fn new(tool: &'static str, arguments: Option<JsonObject>) -> Self {
        let mut given = arguments.unwrap_or_default();
        given.retain(|_, value| !value.is_null());
        Self { tool, given }
    }

    /// A text that must be there.
    pub(crate) fn text(&mut self, name: &str) -> Result<String, ApiError> {
        let text = self.optional_text(name)?.ok_or_else(|| {
            ApiError::invalid(name, format!("`{}` needs `{name}`: it is missing", self.tool))
        })?;
        if text.is_empty() { Err(ApiError::invalid(name, format!("`{name}` is empty"))) } else { Ok(text) }
    }

    /// A short text.
    pub(crate) fn word(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.optional_text(name)? {
            Some(text) if text.is_empty() => {
                Err(ApiError::invalid(name, format!("`{name}` is empty: leave it out instead")))
            }
            Some(text) if text.len() > LONGEST_WORD => {
                Err(ApiError::invalid(name, format!("`{name}` has up to {LONGEST_WORD} bytes")))
            }
            text => Ok(text),
        }
    }

    /// A word that may be written as a number.
    pub(crate) fn label(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        if let Some(number) = self.given.get(name).and_then(Value::as_u64) {
            self.given.remove(name);
            return Ok(Some(number.to_string()));
        }
        self.word(name)
    }

    /// A whole number from `least` to `most`.
    pub(crate) fn number(&mut self, name: &str, least: u64, most: u64) -> Result<Option<u64>, ApiError> {
        let Some(value) = self.given.remove(name) else { return Ok(None) };
        match value.as_u64().filter(|number| (least..=most).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                Err(ApiError::invalid(name, format!("`{name}` is a whole number from {least} to {most}")))
            }
        }
    }

    /// Absent is no.
    pub(crate) fn flag(&mut self, name: &str) -> Result<bool, ApiError> {
        match self.given.remove(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => Err(ApiError::invalid(name, format!("`{name}` is true or false"))),
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// All that is left, for whom it is passed on to.
    pub(crate) fn rest(&mut self) -> Value {
        Value::Object(std::mem::take(&mut self.given))
    }

    /// Refuses what is left.
    pub(crate) fn finish(&self) -> Result<(), ApiError> {
        match self.given.keys().next() {
            None => Ok(()),
            Some(name) => {
                let name: String = name.chars().take(LONGEST_TOLD).collect();
                let detail = format!("`{}` has no argument `{name}`: see its schema", self.tool);
                Err(ApiError::invalid(name, detail))
            }
        }
    }

    fn optional_text(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.given.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(ApiError::invalid(name, format!("`{name}` is text"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(value: Value) -> Fields {
        let Value::Object(given) = value else { panic!("no object") };
        Fields::new("bash", Some(given))
    }

    #[test]
    fn each_wrong_argument_is_named() {
        let field = |error: ApiError| error.problem().field.unwrap_or_default();
        let mut given =
            fields(json!({"a": 7, "b": "", "c": -1, "d": "yes", "e": 1.5, "f": "x".repeat(5000)}));
        assert_eq!(field(given.text("a").unwrap_err()), "a");
        assert_eq!(field(given.word("b").unwrap_err()), "b");
        assert_eq!(field(given.number("c", 0, 9).unwrap_err()), "c");
        assert_eq!(field(given.flag("d").unwrap_err()), "d");
        assert_eq!(field(given.number("e", 0, 9).unwrap_err()), "e");
        assert_eq!(field(given.word("f").unwrap_err()), "f");
        assert_eq!(field(given.text("g").unwrap_err()), "g");
        given.finish().unwrap();
    }

    #[test]
    fn what_nobody_took_is_refused_and_null_is_nothing() {
        let error = fields(json!({"surprise": 1})).finish().unwrap_err();
        assert_eq!(error.problem().field.as_deref(), Some("surprise"));
        assert!(fields(json!({"command": null})).finish().is_ok());
        assert!(Fields::new("ls", None).finish().is_ok());
    }
}

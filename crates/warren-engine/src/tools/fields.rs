use serde_json::{Map, Value};

use crate::EngineError;
use crate::error::Field;

/// A tool's parameters, taken out one by one. What nobody took is refused.
#[derive(Debug)]
pub(super) struct Fields {
    tool: &'static str,
    given: Map<String, Value>,
}

impl Fields {
    pub(super) fn new(tool: &'static str, params: &Value) -> Result<Self, EngineError> {
        match params {
            Value::Object(given) => Ok(Self { tool, given: given.clone() }),
            _ => Err(EngineError::invalid(
                Field::ToolParameters,
                format!("the parameters of `{tool}` are an object"),
            )),
        }
    }

    /// A text that must be there.
    pub(super) fn text(&mut self, name: &str) -> Result<String, EngineError> {
        self.optional_text(name)?.ok_or_else(|| {
            invalid(name, format!("`{}` needs `{name}`: it is missing in the parameters", self.tool))
        })
    }

    /// As [`Fields::text`], for one that may not be empty.
    pub(super) fn words(&mut self, name: &str) -> Result<String, EngineError> {
        let text = self.text(name)?;
        if text.is_empty() { Err(invalid(name, format!("`{name}` is empty"))) } else { Ok(text) }
    }

    pub(super) fn optional_words(&mut self, name: &str) -> Result<Option<String>, EngineError> {
        match self.optional_text(name)? {
            Some(text) if text.is_empty() => {
                Err(invalid(name, format!("`{name}` is empty: leave it out instead")))
            }
            text => Ok(text),
        }
    }

    /// A whole number from `least` to `most`.
    pub(super) fn number(&mut self, name: &str, least: u64, most: u64) -> Result<Option<u64>, EngineError> {
        let Some(value) = self.given.remove(name) else { return Ok(None) };
        match whole(&value).filter(|number| (least..=most).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(invalid(name, format!("`{name}` is a whole number from {least} to {most}"))),
        }
    }

    /// Absent is no.
    pub(super) fn flag(&mut self, name: &str) -> Result<bool, EngineError> {
        match self.given.remove(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => Err(invalid(name, format!("`{name}` is true or false"))),
        }
    }

    /// Refuses what is left.
    pub(super) fn finish(self) -> Result<(), EngineError> {
        match self.given.keys().next() {
            None => Ok(()),
            Some(name) => {
                let tool = self.tool;
                Err(invalid(name, format!("`{tool}` has no parameter `{name}`: see its schema")))
            }
        }
    }

    fn optional_text(&mut self, name: &str) -> Result<Option<String>, EngineError> {
        match self.given.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(invalid(name, format!("`{name}` is text"))),
        }
    }
}

/// A number without a fraction, however it was written.
fn whole(value: &Value) -> Option<u64> {
    if let Some(number) = value.as_u64() {
        return Some(number);
    }
    // Beyond this not every whole number can be told from the next one.
    let exact = |number: &f64| number.fract() == 0.0 && (0.0..9e15).contains(number);
    // No fraction, no sign: the text of it is that of a whole number.
    value.as_f64().filter(exact).and_then(|number| format!("{number:.0}").parse().ok())
}

fn invalid(name: &str, message: String) -> EngineError {
    EngineError::invalid(Field::ToolParameter(name.to_owned()), message)
}

//! Values of the interface as the words that it writes them with.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A value as a word, such as `paused`; one that has no word of its own, as JSON.
pub(crate) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}

/// The value that a word of the command line names; the error lists the words there are.
pub(crate) fn parse_word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(Value::from(text)).map_err(|error| {
        // The command line itself repeats the wrong word.
        let told = error.to_string();
        told.split_once(", ").map_or_else(|| told.clone(), |(_, expected)| expected.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use warren_wire::api::Scope;

    use super::*;

    #[test]
    fn values_are_read_from_the_words_they_are_written_with() {
        assert_eq!(word(&Scope::Admin), "admin");
        assert_eq!(parse_word("admin"), Ok(Scope::Admin));
        assert_eq!(word(&[1, 2]), "[1,2]");
        let error = parse_word::<Scope>("root").unwrap_err();
        assert_eq!(error, "expected one of `read`, `use`, `admin`");
    }
}

//! The tools that a client wants to be offered: some clients take only so many.

use warren_face::error::ApiError;

use crate::tools::Tool;

/// Some of the tools, in the order of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Toolset(Vec<Tool>);

/// Longer than any list of names.
const LONGEST: usize = 512;

impl Toolset {
    pub(crate) fn all() -> Self {
        Self(Tool::ALL.to_vec())
    }

    /// The tools of a place that has none of these.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// For a sandbox that is there to look things up: nothing runs programs, unless it is named.
    pub(crate) fn without_shell() -> Self {
        Self(Tool::ALL.into_iter().filter(|tool| !tool.runs_programs()).collect())
    }

    /// `all`, `core`, or names with commas between them.
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        if text.len() > LONGEST {
            return Err(ApiError::invalid("tools", "`tools` is longer than any list of tools"));
        }
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        if let Some(word) = words.iter().find(|word| !is_known(word)) {
            let known: Vec<&str> = Tool::ALL.iter().map(|tool| tool.name()).collect();
            let detail = format!("there is no tool `{word}`: say all, core, or some of {}", known.join(", "));
            return Err(ApiError::invalid("tools", detail));
        }
        let wanted = |tool: &Tool| {
            words.iter().any(|word| match *word {
                "all" => true,
                "core" => Tool::CORE.contains(tool),
                name => name == tool.name(),
            })
        };
        Ok(Self(Tool::ALL.into_iter().filter(wanted).collect()))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Tool> {
        self.0.iter().copied()
    }

    pub(crate) fn named(&self, name: &str) -> Option<Tool> {
        self.iter().find(|tool| tool.name() == name)
    }
}

fn is_known(word: &str) -> bool {
    matches!(word, "all" | "core") || Tool::ALL.iter().any(|tool| tool.name() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<&'static str> {
        Toolset::parse(text).unwrap_or_else(|error| panic!("{error:?}")).iter().map(Tool::name).collect()
    }

    #[test]
    fn the_order_is_that_of_the_table_however_they_are_named() {
        assert_eq!(names("undo,bash"), ["bash", "undo"]);
        assert_eq!(names("bash, undo,bash"), ["bash", "undo"]);
        assert_eq!(names("all"), Tool::ALL.map(Tool::name));
        assert_eq!(names("core,all"), names("all"));
    }

    #[test]
    fn what_is_no_tool_is_refused_by_name() {
        for text in ["", ",", "BASH", "bash,,ls", "rm", &"bash,".repeat(200)] {
            let problem = Toolset::parse(text).unwrap_err().problem();
            assert_eq!((problem.status, problem.field.as_deref()), (422, Some("tools")), "{text}");
        }
    }
}

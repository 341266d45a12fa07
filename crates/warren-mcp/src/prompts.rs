//! Prompts: beginnings of conversations that people choose by name.

use rmcp::model::{ContentBlock, GetPromptResult, JsonObject, Prompt, PromptArgument, PromptMessage, Role};
use warren_face::error::ApiError;

use crate::fields::Fields;

/// A prompt by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    SetUp,
    FindCause,
    TrySafely,
}

const ALL: [Named; 3] = [Named::SetUp, Named::FindCause, Named::TrySafely];

impl Named {
    fn name(self) -> &'static str {
        match self {
            Self::SetUp => "set_up_project",
            Self::FindCause => "find_what_broke_it",
            Self::TrySafely => "try_safely",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::SetUp => "Make a project run in the sandbox, with a checkpoint to come back to",
            Self::FindCause => "Find the change after which a check fails, and take it back",
            Self::TrySafely => "Make a risky change that is kept only if a check passes",
        }
    }

    /// The arguments, each with what it is. The first one must be given.
    fn arguments(self) -> [(&'static str, &'static str); 2] {
        match self {
            Self::SetUp => [
                ("project", "A repository's address, or a directory of the sandbox"),
                ("check", "A command that succeeds once the project runs"),
            ],
            Self::FindCause => [
                ("check", "The command that fails now and did not earlier"),
                ("good", "An entry, a checkpoint or a snapshot at which it still passed"),
            ],
            Self::TrySafely => {
                [("change", "What is to be changed"), ("check", "A command that must succeed afterwards")]
            }
        }
    }

    fn text(self, first: &str, second: Option<&str>) -> String {
        match self {
            Self::SetUp => {
                let check = second.map_or_else(
                    || "Find out how the project is tested, and use that as the check.".to_owned(),
                    |check| format!("The check is: {check}"),
                );
                format!(
                    "Set up this project in the sandbox: {first}\n{check}\n\nLook at it first (ls, read). Make \
                     checkpoint(name=\"clean\") before you install anything. If a step goes wrong, take it back \
                     with the undo that its answer names instead of repairing by hand. When the check passes, \
                     make checkpoint(name=\"works\") and say in a few lines how the project is run."
                )
            }
            Self::FindCause => {
                let good = second.map_or_else(
                    || "You do not know yet when it last passed.".to_owned(),
                    |good| format!("It still passed at: {good}"),
                );
                format!(
                    "Something broke this check: {first}\n{good}\n\nRun the check once. Then read history, and \
                     look for the entry after which it fails: make a fork of an earlier state with \
                     sandbox(action=\"fork\", from=N), run the check in the fork, and halve what is left, so \
                     that the sandbox itself stays as it is. Show the diff of that entry, say why it broke the \
                     check, remove the forks, and ask before you undo anything."
                )
            }
            Self::TrySafely => {
                let check = second.unwrap_or("the project's own tests");
                format!(
                    "Make this change: {first}\n\nUse the tool try with one command line that makes it and this \
                     check: {check}\nIf nothing was kept, read why, and try another way at most three times. \
                     When it is kept, show the diff and the undo that takes it back."
                )
            }
        }
    }
}

pub(crate) fn list() -> Vec<Prompt> {
    let argument = |(index, (name, about)): (usize, (&str, &str))| {
        PromptArgument::new(name).with_description(about).with_required(index == 0)
    };
    let prompt = |named: Named| {
        let arguments = named.arguments().into_iter().enumerate().map(argument).collect();
        Prompt::new(named.name(), Some(named.about()), Some(arguments))
    };
    ALL.into_iter().map(prompt).collect()
}

/// The prompt of this name with its arguments filled in; `None` if there is none.
pub(crate) fn get(name: &str, arguments: Option<JsonObject>) -> Option<Result<GetPromptResult, ApiError>> {
    let named = ALL.into_iter().find(|named| named.name() == name)?;
    Some(filled(named, arguments))
}

fn filled(named: Named, arguments: Option<JsonObject>) -> Result<GetPromptResult, ApiError> {
    let mut fields = Fields::new(named.name(), arguments);
    let [(first, _), (second, _)] = named.arguments();
    let given = fields.text(first)?;
    let other = fields.word(second)?;
    fields.finish()?;
    let text = named.text(&given, other.as_deref());
    let message = PromptMessage::new(Role::User, ContentBlock::text(text));
    Ok(GetPromptResult::new(vec![message]).with_description(named.about()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn given(value: Value) -> Option<JsonObject> {
        value.as_object().cloned()
    }

    #[test]
    fn every_prompt_says_what_it_was_given() {
        for prompt in list() {
            let first =
                prompt.arguments.as_ref().map(|arguments| arguments[0].name.clone()).unwrap_or_default();
            let filled = get(&prompt.name, given(json!({ first.clone(): "the thing" })));
            let text = serde_json::to_string(&filled.and_then(Result::ok)).unwrap_or_default();
            assert!(text.contains("the thing"), "{text}");
            let missing = get(&prompt.name, None).and_then(Result::err);
            assert_eq!(missing.and_then(|error| error.problem().field), Some(first));
        }
        assert!(get("nothing", None).is_none());
    }
}

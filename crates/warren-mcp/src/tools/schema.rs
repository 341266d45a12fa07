//! The tools as they are listed: short, since a model reads all of it before its first word.

use rmcp::model::JsonObject;
use serde_json::{Value, json};
use warren_face::Desk;

use super::Tool;
use super::program::{
    LEAST_OUTPUT, LONGEST_TIMEOUT_MS, LONGEST_WAIT_MS, MOST_OUTPUT, USUAL_OUTPUT, USUAL_WAIT_MS,
};
use super::sandbox::LONGEST_TTL_S;
use super::travel::MOST_STEPS;

pub(super) fn description(tool: Tool) -> &'static str {
    match tool {
        Tool::Bash => {
            "In the sandbox: run a command line in a login shell. Answers its output and exit code; \
             one that takes longer than wait_ms runs on as a process. Each call has a shell of its own. \
             What it changes can be undone."
        }
        Tool::Python => {
            "In the sandbox: run a Python 3 program. Answers its output and exit code; one that takes \
             longer than wait_ms runs on as a process. What it changes can be undone."
        }
        Tool::Read => "In the sandbox: read a text file, or part of it by lines; or look at an image.",
        Tool::Write => {
            "In the sandbox: write a file: make it with the directories it needs, or replace all of it."
        }
        Tool::Edit => {
            "In the sandbox: replace a text in a file by another, exactly as given. Refused if the text \
             is not there or not unique."
        }
        Tool::Ls => "In the sandbox: list a directory; directories end with a slash, files have their size.",
        Tool::Glob => "In the sandbox: find files whose path has a given shape.",
        Tool::Grep => {
            "In the sandbox: find lines that match a regular expression, in all text files below a directory."
        }
        Tool::Undo => {
            "In the sandbox: give all files an earlier state: before the last change, or after the entry \
             `to` of the journal. Whatever runs there ends. The state that is left is kept: an undo can \
             itself be undone."
        }
        Tool::Sandbox => {
            "Make, fork, list and end sandboxes. One lives until its time is over or it is removed; files \
             of one that stopped stay, and resume brings it back. The first one made is the default of \
             all tools. remove deletes its files for good."
        }
    }
}

/// The schema of the arguments. Where the address names the sandbox, there is no argument for it.
pub(super) fn of(tool: Tool, pinned: bool, desk: &Desk) -> JsonObject {
    let schema = match tool {
        Tool::Bash => program("command", "A command line."),
        Tool::Python => program("code", "A program."),
        Tool::Read | Tool::Write | Tool::Edit | Tool::Ls | Tool::Glob | Tool::Grep => {
            let offered = desk.engine.tools();
            let own = offered.into_iter().find(|offer| offer.name == tool.name());
            own.map(|offer| offer.parameters).unwrap_or_default()
        }
        Tool::Undo => object(
            json!({
                "to": { "type": "string", "description": "Where to go: the number of a journal entry, after which it is; a snapshot's id; or a checkpoint's name." },
                "steps": { "type": "integer", "minimum": 1, "maximum": MOST_STEPS, "description": "How many changes to take back; 1 if absent." },
                "redo": { "type": "boolean", "description": "Take back an undo instead." },
                "force": { "type": "boolean", "description": "Also if another call waits for a command there." },
            }),
            &[],
        ),
        Tool::Sandbox if pinned => {
            object(json!({ "action": choice(&["info", "stop", "resume"]) }), &["action"])
        }
        Tool::Sandbox => object(
            json!({
                "action": choice(&["create", "fork", "list", "info", "stop", "resume", "remove"]),
                "template": { "type": "string", "description": "create: the template; the server's usual one if absent." },
                "name": { "type": "string", "description": "create, fork: a name for it." },
                "from": { "type": "string", "description": "fork: an earlier state, as `to` of undo; as it is now if absent." },
                "ttl_s": { "type": "integer", "minimum": 1, "maximum": LONGEST_TTL_S, "description": "create, fork: how long it lives." },
            }),
            &["action"],
        ),
    };
    let Value::Object(mut schema) = schema else { return JsonObject::new() };
    if !pinned && let Some(Value::Object(properties)) = schema.get_mut("properties") {
        let about = "The sandbox: its id or name. Left out: the default one.";
        properties.insert("sandbox".to_owned(), json!({ "type": "string", "description": about }));
    }
    schema
}

fn program(name: &str, about: &str) -> Value {
    object(
        json!({
            name: { "type": "string", "description": about },
            "cwd": { "type": "string", "description": "The directory to run in." },
            "wait_ms": { "type": "integer", "minimum": 0, "maximum": LONGEST_WAIT_MS, "description": format!("Wait so long for its end; {USUAL_WAIT_MS} if absent.") },
            "timeout_ms": { "type": "integer", "minimum": 1, "maximum": LONGEST_TIMEOUT_MS, "description": "Kill it after this long. Absent: never." },
            "background": { "type": "boolean", "description": "Do not wait at all." },
            "max_output_bytes": { "type": "integer", "minimum": LEAST_OUTPUT, "maximum": MOST_OUTPUT, "description": format!("More is cut out of the middle; {USUAL_OUTPUT} if absent.") },
        }),
        &[name],
    )
}

fn choice(words: &[&str]) -> Value {
    json!({ "type": "string", "enum": words })
}

fn object(properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

//! The tools as they are listed: short, since a model reads all of it before its first word.

use rmcp::model::JsonObject;
use serde_json::{Value, json};
use warren_face::Desk;

use super::Tool;
use super::program::{LONGEST_WAIT_MS, USUAL_OUTPUT, USUAL_WAIT_MS};

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
        Tool::Process => {
            "In the sandbox: list processes, read what one wrote (from the position `since`), wait for it, \
             write to the input of one that was started in the background, or send a signal."
        }
        Tool::History => {
            "In the sandbox: what was done, the newest first, with the numbers that undo and diff take, and \
             the checkpoints; with `path`, what last changed it."
        }
        Tool::Diff => {
            "In the sandbox: what differs between two states, as a patch. Left out, `from` is before the \
             last change and `to` is now."
        }
        Tool::Checkpoint => "In the sandbox: give the state of all files a name, which undo and diff take.",
        Tool::Try => {
            "Run a command in a copy of the sandbox, then a check; if both succeed, bring the changes into \
             the sandbox, else drop them. For what may break things."
        }
        Tool::Port => {
            "In the sandbox: an address at which others reach what listens on a TCP port, for a while."
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
        Tool::Python => {
            let about = "Keep state between calls: `default`, or a context's id.";
            with(program("code", "A program."), "context", text(about))
        }
        Tool::Read | Tool::Write | Tool::Edit | Tool::Ls | Tool::Glob | Tool::Grep => {
            let offered = desk.engine.tools();
            let own = offered.into_iter().find(|offer| offer.name == tool.name());
            own.map(|offer| unbounded(offer.parameters)).unwrap_or_default()
        }
        Tool::Process => process(),
        Tool::History => object(
            json!({
                "limit": number("How many; 20 if absent."),
                "before": number("Only entries before this one."),
                "path": text("Instead: what last changed this path."),
            }),
            &[],
        ),
        Tool::Diff => object(
            json!({
                "from": text("A state, as `to` of undo."),
                "to": text("A state, as `to` of undo."),
                "path": text("Only at or below this path."),
                "max_output_bytes": output(),
            }),
            &[],
        ),
        Tool::Checkpoint => {
            object(json!({ "name": text("A name that no other state here has.") }), &["name"])
        }
        Tool::Try => object(
            json!({
                "command": text("A command line."),
                "check": text("Another one, which must succeed."),
                "cwd": text("The directory to run in."),
                "timeout_ms": number("For both; 50000 if absent."),
                "force": flag("Even if another call waits there."),
            }),
            &["command"],
        ),
        Tool::Port => object(
            json!({
                "port": { "type": "integer" },
                "expires_in_s": number("3600 if absent."),
            }),
            &["port"],
        ),
        Tool::Undo => object(
            json!({
                "to": text("The number of a journal entry, a snapshot's id, or a checkpoint's name."),
                "steps": number("How many changes; 1 if absent."),
                "redo": flag("Take back an undo instead."),
                "force": flag("Even if another call waits there."),
            }),
            &[],
        ),
        Tool::Sandbox if pinned => {
            object(json!({ "action": choice(&["info", "stop", "resume"]) }), &["action"])
        }
        Tool::Sandbox => object(
            json!({
                "action": choice(&["create", "fork", "list", "info", "stop", "resume", "remove"]),
                "template": text("create: the template."),
                "name": text("create, fork: a name for it."),
                "from": text("fork: an earlier state, as `to` of undo."),
                "ttl_s": number("create, fork: how long it lives."),
            }),
            &["action"],
        ),
    };
    let Value::Object(mut schema) = schema else { return JsonObject::new() };
    if !pinned && let Some(Value::Object(properties)) = schema.get_mut("properties") {
        // The server's instructions say what it is, once for all tools.
        properties.insert("sandbox".to_owned(), json!({ "type": "string" }));
    }
    schema
}

/// A schema without the bounds of its values, which a refusal tells to whoever passes them.
fn unbounded(mut schema: Value) -> Value {
    for property in schema["properties"].as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
        if let Value::Object(property) = property {
            property.retain(|name, _| !matches!(name.as_str(), "minimum" | "maximum" | "minLength"));
        }
    }
    schema
}

fn program(name: &str, about: &str) -> Value {
    object(
        json!({
            name: { "type": "string", "description": about },
            "cwd": text("The directory to run in."),
            "wait_ms": wait(),
            "timeout_ms": number("Kill it after this long. Absent: never."),
            "background": flag("Do not wait at all."),
            "max_output_bytes": output(),
        }),
        &[name],
    )
}

fn process() -> Value {
    object(
        json!({
            "action": choice(&["list", "output", "wait", "input", "signal"]),
            "id": number("All but list: the process."),
            "since": number("output, wait: from this position on."),
            "wait_ms": wait(),
            "text": text("input: what to write."),
            "close": flag("input: then close it."),
            "signal": choice(&["TERM", "KILL", "INT", "HUP", "QUIT", "USR1", "USR2", "STOP", "CONT"]),
            "max_output_bytes": output(),
        }),
        &["action"],
    )
}

fn output() -> Value {
    number(&format!("More is cut in the middle; {USUAL_OUTPUT} if absent."))
}

fn wait() -> Value {
    let about = format!("Wait at most so long; {USUAL_WAIT_MS} if absent.");
    json!({ "type": "integer", "maximum": LONGEST_WAIT_MS, "description": about })
}

fn text(about: &str) -> Value {
    json!({ "type": "string", "description": about })
}

fn flag(about: &str) -> Value {
    json!({ "type": "boolean", "description": about })
}

/// Its bounds are told by the refusal, to whoever passes them.
fn number(about: &str) -> Value {
    json!({ "type": "integer", "description": about })
}

fn with(mut schema: Value, name: &str, property: Value) -> Value {
    schema["properties"][name] = property;
    schema
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

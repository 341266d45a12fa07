//! The texts that make a client know this server.

use clap::ValueEnum;
use serde_json::{Value, json};

/// A program that uses tools by the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentClient {
    Claude,
    Cursor,
    Vscode,
    Codex,
    Desktop,
    Gemini,
}

/// How a client is to reach the tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Door {
    /// A server's address, to which a key is shown.
    Http { url: String },
    /// This program, with these words after `mcp`.
    Stdio { words: Vec<String> },
}

/// The variable in which clients find the key.
const KEY: &str = "WARREN_API_KEY";

impl AgentClient {
    /// The line to type, or the file to write and what belongs into it.
    pub(crate) fn text(self, door: &Door) -> String {
        match (self, door) {
            (Self::Claude, Door::Http { url }) => {
                format!(
                    "claude mcp add --transport http warren {url} --header \"Authorization: Bearer ${KEY}\""
                )
            }
            (Self::Claude, Door::Stdio { words }) => {
                format!("claude mcp add warren -- {}", line(words))
            }
            (Self::Codex, Door::Http { url }) => {
                format!("codex mcp add warren --url {url} --bearer-token-env-var {KEY}")
            }
            (Self::Codex, Door::Stdio { words }) => format!("codex mcp add warren -- {}", line(words)),
            (Self::Gemini, Door::Http { url }) => {
                format!(
                    "gemini mcp add --transport http --header \"Authorization: Bearer ${KEY}\" warren {url}"
                )
            }
            (Self::Gemini, Door::Stdio { words }) => format!("gemini mcp add warren {}", line(words)),
            (Self::Cursor, door) => {
                file("~/.cursor/mcp.json", &json!({ "mcpServers": { "warren": cursor(door) } }))
            }
            (Self::Desktop, door) => {
                file("claude_desktop_config.json", &json!({ "mcpServers": { "warren": desktop(door) } }))
            }
            (Self::Vscode, door) => file(".vscode/mcp.json", &vscode(door)),
        }
    }
}

fn line(words: &[String]) -> String {
    let plain = |word: &String| {
        let usual = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./=:,@%+".contains(&byte);
        if !word.is_empty() && word.bytes().all(usual) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    ["warren".to_owned(), "mcp".to_owned()].iter().chain(words).map(plain).collect::<Vec<_>>().join(" ")
}

fn command(words: &[String]) -> Value {
    let words: Vec<&str> = std::iter::once("mcp").chain(words.iter().map(String::as_str)).collect();
    json!({ "command": "warren", "args": words })
}

fn cursor(door: &Door) -> Value {
    match door {
        Door::Http { url } => {
            json!({ "url": url, "headers": { "Authorization": format!("Bearer ${{env:{KEY}}}") } })
        }
        Door::Stdio { words } => command(words),
    }
}

/// It starts programs, and no more: a server elsewhere is reached by one.
fn desktop(door: &Door) -> Value {
    match door {
        Door::Http { url } => {
            let base = url.split("/mcp").next().unwrap_or(url);
            json!({ "command": "warren", "args": ["mcp", "--url", base], "env": { KEY: "the key" } })
        }
        Door::Stdio { words } => command(words),
    }
}

fn vscode(door: &Door) -> Value {
    match door {
        Door::Http { url } => json!({
            "servers": { "warren": { "type": "http", "url": url, "headers": { "Authorization": "Bearer ${input:key}" } } },
            "inputs": [{ "type": "promptString", "id": "key", "description": "Warren's key", "password": true }],
        }),
        Door::Stdio { words } => {
            let mut server = command(words);
            server["type"] = json!("stdio");
            json!({ "servers": { "warren": server } })
        }
    }
}

fn file(name: &str, content: &Value) -> String {
    let content = serde_json::to_string_pretty(content).unwrap_or_default();
    format!("// {name}\n{content}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_is_told_of_either_door_and_of_no_key() {
        let http = Door::Http { url: "http://127.0.0.1:7777/mcp".to_owned() };
        let stdio = Door::Stdio { words: vec!["--sandbox".to_owned(), "my box".to_owned()] };
        for client in AgentClient::value_variants() {
            let told = client.text(&http);
            assert!(told.contains("127.0.0.1:7777"), "{told}");
            let told = client.text(&stdio);
            assert!(told.contains("mcp") && told.contains("my box"), "{told}");
            if let Some(json) = told.strip_prefix("// ") {
                let (_, json) = json.split_once('\n').unwrap();
                serde_json::from_str::<Value>(json).unwrap();
            }
        }
        assert!(AgentClient::Claude.text(&stdio).ends_with("-- warren mcp --sandbox 'my box'"));
    }
}

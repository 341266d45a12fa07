use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use warren_core::{ByteSize, SandboxWord, parse_duration};
use warren_wire::api::{ToolCall, ToolContent, ToolOutput, ToolResult};
use warren_wire::client::Client;

use super::exec::exit_code;
use crate::error::CliError;
use crate::global::Global;
use crate::time::milliseconds;
use crate::travel::present::one_line;
use crate::ui;

const EXAMPLES: &str = "\
Examples:
  warren tool                                      what tools there are
  warren tool \"$id\" bash '{\"command\": \"make test\"}'
  warren tool \"$id\" read '{\"path\": \"/etc/hosts\"}'
  warren tool \"$id\" edit - < edit.json";

/// Call a tool in a sandbox, as an agent would; without a sandbox, list the tools.
///
/// Its text goes to standard output, and its exit code is warren's; a tool that runs no program
/// exits with 1 if it failed. `--json` prints the whole answer, and with a list the schema of each
/// tool's parameters.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Tool {
    /// The sandbox, as `warren ls` lists them
    #[arg(requires = "tool")]
    id: Option<SandboxWord>,
    /// The tool's name
    #[arg(value_name = "NAME")]
    tool: Option<String>,
    /// Its parameters, as a JSON object; `-` reads them from standard input
    #[arg(value_name = "PARAMS", default_value = "{}", hide_default_value = true)]
    params: String,
    /// A word of your own for the call: the same one gets the first answer again
    #[arg(long, value_name = "WORD")]
    call_id: Option<String>,
    /// End it after this long, such as 90s or 10m
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    timeout: Option<Duration>,
    /// The most output that is returned, such as 64k
    #[arg(long, value_name = "SIZE")]
    max_output: Option<ByteSize>,
    /// Keep the state after it as a snapshot
    #[arg(long)]
    snapshot: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Tool {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let client = global.client()?;
        let (Some(id), Some(tool)) = (&self.id, &self.tool) else {
            return self.list(&client);
        };
        let call = self.call()?;
        let result = if self.json {
            let result = client.call_tool(id.as_str(), tool, &call)?;
            ui::print_json(&result);
            result
        } else {
            follow(&client, id.as_str(), tool, &call)?
        };
        Ok(match result.exit_code {
            Some(code) => exit_code(code),
            None => ExitCode::from(u8::from(result.is_error)),
        })
    }

    fn list(&self, client: &Client) -> Result<ExitCode, CliError> {
        let tools = client.tools()?.items;
        ui::show_table(self.json, ["TOOL", "TIER", "WHAT IT DOES"], &tools, |tool| {
            let first = tool.description.split_inclusive(". ").next().unwrap_or_default();
            [tool.name.clone(), tool.tier.to_string(), one_line(first.trim_end(), 100)]
        });
        Ok(ExitCode::SUCCESS)
    }

    fn call(&self) -> Result<ToolCall, CliError> {
        Ok(ToolCall {
            call_id: self.call_id.clone(),
            params: parse_params(&ui::text_or_stdin(&self.params)?)?,
            timeout_ms: self.timeout.map(milliseconds),
            max_output_bytes: self.max_output.map(|size| size.0),
            snapshot: self.snapshot,
            ..ToolCall::default()
        })
    }
}

fn parse_params(text: &str) -> Result<BTreeMap<String, Value>, CliError> {
    serde_json::from_str(text).map_err(|error| {
        CliError::new(format!("PARAMS is not a JSON object: {error}"))
            .hint("for example: warren tool SBX bash '{\"command\": \"ls\"}'")
    })
}

/// Passes output on as it comes, and prints the result's text if there was none.
fn follow(client: &Client, id: &str, tool: &str, call: &ToolCall) -> Result<ToolResult, CliError> {
    let mut events = client.follow_tool(id, tool, call)?;
    let mut told = false;
    while let Some(event) = events.next_event()? {
        match event.name.as_str() {
            "stdout" => told |= pass(&mut io::stdout(), &event.data)?,
            "stderr" => told |= pass(&mut io::stderr(), &event.data)?,
            "result" => {
                let result: ToolResult = serde_json::from_str(&event.data).map_err(CliError::new)?;
                show(&result, told)?;
                return Ok(result);
            }
            _ => {}
        }
    }
    Err(CliError::new("the server ended the stream before the tool's answer"))
}

fn pass(stream: &mut impl Write, data: &str) -> Result<bool, CliError> {
    let output: ToolOutput = serde_json::from_str(data).map_err(CliError::new)?;
    ui::write(stream, output.text.as_bytes())?;
    Ok(true)
}

fn show(result: &ToolResult, told: bool) -> Result<(), CliError> {
    for content in &result.content {
        match content {
            ToolContent::Text { text, .. } if !told => {
                let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
                let whole = format!("{text}{end}");
                if result.is_error {
                    ui::write(&mut io::stderr(), whole.as_bytes())?;
                } else {
                    ui::write(&mut io::stdout(), whole.as_bytes())?;
                }
            }
            ToolContent::Text { .. } => {}
            ToolContent::Image { media_type, data } => {
                ui::say(&format!("({media_type}, about {} bytes: --json has it)", data.len() / 4 * 3));
            }
        }
    }
    if let Some(snapshot) = &result.snapshot_id {
        ui::say(&format!("the state after it is {snapshot}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_an_object() {
        assert_eq!(parse_params("{\"a\": 1}").unwrap().len(), 1);
        assert!(parse_params("{}").unwrap().is_empty());
        for text in ["", "[]", "\"x\"", "{"] {
            assert!(parse_params(text).is_err(), "{text}");
        }
    }
}

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;
use warren_core::{SandboxWord, parse_duration};
use warren_wire::api::{CodeContext, CodeEnd, CodeError, CodeOutput, CodeText, NewCodeContext, RunCode};

use crate::error::CliError;
use crate::global::Global;
use crate::time::whole_seconds;
use crate::ui;
use crate::variable::{self, Variable};

const EXAMPLES: &str = "\
Examples:
  warren code run \"$id\" 'x = 20'
  warren code run \"$id\" 'x * 2 + 2'                  earlier cells' variables are there
  warren code run \"$id\" --save-images figures - < plot.py
  warren code run \"$id\" --language javascript 'await fetch(\"http://localhost:8000\")'";

/// Run code in a sandbox, cell by cell.
#[derive(Debug, Subcommand)]
pub(crate) enum Code {
    Run(Run),
    /// List the contexts of a sandbox.
    Contexts {
        /// The sandbox, as `warren ls` lists them
        id: SandboxWord,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    Create(Create),
    /// Start a context anew: what runs in it ends, and its state is lost.
    Restart(OneContext),
    /// Interrupt the cell that runs in a context; its state stays.
    Interrupt(OneContext),
    /// Remove a context, and end what runs in it.
    Rm(OneContext),
}

/// Run a cell; later cells see its variables.
///
/// Its output goes to standard output and error as it comes, then the value of its last expression.
/// Exits with 1 if it failed. Ctrl-C interrupts it.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Run {
    /// The sandbox, as `warren ls` lists them
    id: SandboxWord,
    /// The code; `-` reads it from standard input
    code: String,
    /// python, javascript, typescript, bash, or another one that the sandbox has a kernel for
    #[arg(long, short, conflicts_with = "context")]
    language: Option<String>,
    /// The context in which it runs; the language's default one if none is named
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,
    /// A variable for this cell alone; may be given more than once
    #[arg(long = "env", short, value_name = "NAME[=VALUE]", value_parser = Variable::parse)]
    env: Vec<Variable>,
    /// Interrupt it after this long, such as 90s or 10m
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    timeout: Option<Duration>,
    /// Where to put pictures
    #[arg(long, value_name = "DIR")]
    save_images: Option<PathBuf>,
    /// Print JSON
    #[arg(long, conflicts_with = "save_images")]
    json: bool,
}

/// Make a context, with a state of its own.
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// The sandbox, as `warren ls` lists them
    id: SandboxWord,
    /// Its language
    #[arg(long, short)]
    language: Option<String>,
    /// The directory in which its cells start
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct OneContext {
    /// The sandbox, as `warren ls` lists them
    id: SandboxWord,
    /// The context, or a language for its default one
    context: String,
}

impl Code {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let client = global.client()?;
        match self {
            Self::Run(args) => return args.run(global),
            Self::Contexts { id, json } => {
                let contexts = client.code_contexts(id.as_str())?.items;
                let row = |one: &CodeContext| [one.id.clone(), one.language.clone(), one.cwd.clone()];
                ui::show_table(json, ["CONTEXT", "LANGUAGE", "DIRECTORY"], &contexts, row);
            }
            Self::Create(args) => {
                let wanted = NewCodeContext { language: args.language, cwd: args.cwd };
                let made = client.create_code_context(args.id.as_str(), &wanted)?;
                ui::show(args.json, &made, |made| ui::print(&made.id));
            }
            Self::Restart(args) => client.restart_code_context(args.id.as_str(), &args.context)?,
            Self::Interrupt(args) => client.interrupt_code_context(args.id.as_str(), &args.context)?,
            Self::Rm(args) => client.remove_code_context(args.id.as_str(), &args.context)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Run {
    fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let client = global.client()?;
        let order = self.order()?;
        if self.json {
            let result = client.run_code(self.id.as_str(), &order)?;
            ui::print_json(&result);
            return Ok(ExitCode::from(u8::from(result.error.is_some())));
        }
        let mut events = client.follow_code(self.id.as_str(), &order)?;
        let (mut failed, mut pictures) = (false, 0);
        while let Some(event) = events.next_event()? {
            match event.name.as_str() {
                "stdout" => ui::write(&mut io::stdout(), read::<CodeText>(&event.data)?.text.as_bytes())?,
                "stderr" => ui::write(&mut io::stderr(), read::<CodeText>(&event.data)?.text.as_bytes())?,
                "result" => self.show(&read(&event.data)?, &mut pictures)?,
                "exception" => {
                    failed = true;
                    complain(&read(&event.data)?)?;
                }
                "error" => return Err(CliError::new(format!("the server ended the stream: {}", event.data))),
                "end" => {
                    if read::<CodeEnd>(&event.data)?.timed_out {
                        ui::complain("it was interrupted: its time was over");
                    }
                    return Ok(ExitCode::from(u8::from(failed)));
                }
                _ => {}
            }
        }
        Err(CliError::new("the server ended the stream before the cell did"))
    }

    fn order(&self) -> Result<RunCode, CliError> {
        let seconds = |timeout| u32::try_from(whole_seconds(timeout).max(1)).unwrap_or(u32::MAX);
        Ok(RunCode {
            code: ui::text_or_stdin(&self.code)?,
            context: self.context.clone(),
            language: self.language.clone(),
            env: variable::settled(&self.env).collect(),
            timeout_s: self.timeout.map(seconds),
        })
    }

    /// Prints a result, or puts its picture into a file.
    fn show(&self, output: &CodeOutput, pictures: &mut u32) -> Result<(), CliError> {
        let picture = [(&output.png, "png"), (&output.jpeg, "jpeg")];
        let picture = picture.into_iter().find_map(|(data, ending)| Some((data.as_ref()?, ending)));
        if let (Some(directory), Some((data, ending))) = (&self.save_images, picture) {
            *pictures += 1;
            let path = directory.join(format!("{pictures}.{ending}"));
            let bytes = STANDARD.decode(data).map_err(CliError::new)?;
            std::fs::create_dir_all(directory)
                .and_then(|()| std::fs::write(&path, bytes))
                .map_err(CliError::new)?;
            ui::print(&path.display().to_string());
            return Ok(());
        }
        match &output.text {
            Some(text) => ui::write(&mut io::stdout(), format!("{text}\n").as_bytes()),
            None => Ok(()),
        }
    }
}

fn read<T: DeserializeOwned>(data: &str) -> Result<T, CliError> {
    serde_json::from_str(data).map_err(CliError::new)
}

fn complain(error: &CodeError) -> Result<(), CliError> {
    let traceback = error.traceback.trim_end();
    let text =
        if traceback.is_empty() { format!("{}: {}", error.name, error.value) } else { traceback.to_owned() };
    ui::write(&mut io::stderr(), format!("{text}\n").as_bytes())
}

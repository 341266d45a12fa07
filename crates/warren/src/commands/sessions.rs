use clap::{Args, Subcommand};
use warren_wire::api::{NewRun, Session};
use warren_wire::client::{Client, SessionAction, SessionQuery};

use crate::error::CliError;
use crate::global::Global;
use crate::server::all_pages;
use crate::time::{age_of, from_milliseconds};
use crate::ui;
use crate::word::word;

/// List sessions, or do something with one.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Sessions {
    #[command(flatten)]
    list: ListArgs,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only those of this sandbox
    #[arg(long, value_name = "ID")]
    sandbox: Option<String>,
    /// Only those of this client
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    /// Also those that are over
    #[arg(long, short)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show all about a session, its runs too, as JSON
    Show(One),
    /// Leave it for now: its sandbox waits for a while
    Detach(One),
    /// Freeze its sandbox
    Suspend(One),
    /// Go on from the state it was left in
    Resume(One),
    /// Give it back; its sandbox's files are kept
    Release(One),
    /// End it and its sandbox for good
    Terminate(One),
    /// End it as if its time were over
    Expire(One),
}

#[derive(Debug, Args)]
struct One {
    /// The session, as `warren sessions` lists them
    id: String,
    /// Print all about it as JSON
    #[arg(long)]
    json: bool,
}

impl Sessions {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let client = global.client()?;
        match self.action {
            None => self.list.run(&client)?,
            Some(Action::Show(one)) => ui::print_json(&client.session_details(&one.id)?),
            Some(Action::Detach(one)) => act(&client, &one, SessionAction::Detach)?,
            Some(Action::Suspend(one)) => act(&client, &one, SessionAction::Suspend)?,
            Some(Action::Resume(one)) => act(&client, &one, SessionAction::Resume)?,
            Some(Action::Release(one)) => act(&client, &one, SessionAction::Release)?,
            Some(Action::Terminate(one)) => act(&client, &one, SessionAction::Terminate)?,
            Some(Action::Expire(one)) => act(&client, &one, SessionAction::Expire)?,
        }
        Ok(())
    }
}

fn act(client: &Client, one: &One, action: SessionAction) -> Result<(), CliError> {
    ui::show(one.json, &client.session_action(&one.id, action)?, |session| ui::print(&word(&session.state)));
    Ok(())
}

impl ListArgs {
    fn run(&self, client: &Client) -> Result<(), CliError> {
        let sessions = all_pages(|cursor| {
            client.sessions(&SessionQuery {
                sandbox: self.sandbox.clone(),
                client: self.client.clone(),
                ended: self.all,
                cursor,
            })
        })?;
        let headings = ["SESSION", "SANDBOX", "CLIENT", "STATE", "RUNS", "TOKENS", "AGE"];
        ui::show_table(self.json, headings, &sessions, row);
        Ok(())
    }
}

fn row(session: &Session) -> [String; 7] {
    [
        session.session_id.clone(),
        session.sandbox_id.clone(),
        session.client.clone(),
        word(&session.state),
        format!("{}/{}", session.totals.runs, session.limits.runs),
        format!("{}/{}", session.totals.tokens, session.limits.tokens),
        age_of(&session.created_at),
    ]
}

/// List a session's runs, or record one.
#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// The session, as `warren sessions` lists them
    id: String,
    /// Record a run of this task
    #[arg(long, value_name = "TASK", requires = "duration_ms")]
    record: Option<String>,
    /// Its result
    #[arg(long, value_name = "TEXT", requires = "record")]
    result: Option<String>,
    /// How long it took, in milliseconds
    #[arg(long, value_name = "MS", requires = "record")]
    duration_ms: Option<u64>,
    /// Tokens it used
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    tokens: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Runs {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let client = global.client()?;
        let runs = match self.record {
            Some(task) => vec![client.record_run(
                &self.id,
                &NewRun {
                    task,
                    result: self.result,
                    duration_ms: self.duration_ms.unwrap_or(0),
                    tokens: self.tokens,
                    ..NewRun::default()
                },
            )?],
            None => client.runs(&self.id)?.items,
        };
        ui::show_table(self.json, ["RUN", "STATUS", "TOOK", "TOKENS", "AGE", "TASK"], &runs, |run| {
            [
                run.number.to_string(),
                word(&run.status),
                from_milliseconds(run.duration_ms),
                run.tokens.to_string(),
                age_of(&run.at),
                run.task.chars().take(60).collect(),
            ]
        });
        Ok(())
    }
}

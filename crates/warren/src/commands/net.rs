use std::time::Duration;

use clap::{Args, Subcommand};
use warren_core::{NetworkRule, SandboxWord, parse_duration};
use warren_wire::api::{
    AnswerNetworkAsk, ChangeNetworkRules, NetworkAsk, NetworkEffect, NetworkLogEntry, NetworkRequest,
    NetworkStatus, NetworkVerdict,
};
use warren_wire::client::Client;

use crate::error::CliError;
use crate::global::Global;
use crate::network::{self, LastRefusal, NetworkChoice, Rules};
use crate::time::{age_of, whole_seconds};
use crate::ui;
use crate::which;
use crate::word::word;

const EXAMPLES: &str = "\
Examples:
  warren net log \"$id\" -f                         what it reaches and what is refused, as it happens
  warren net allow \"$id\" pypi.org --for 10m       open something for a while
  warren net set \"$id\" allow=pypi.org,files.pythonhosted.org
  warren net set \"$id\" none                       close everything at once
  warren net learn \"$id\"                          the smallest policy for what it has reached

Rules: example.com  *.example.com  example.com:443  192.0.2.0/24  [2001:db8::/32]:443  *:443
Private networks, this machine and other sandboxes are closed whatever a rule says.";

/// See and change a sandbox's network policy.
///
/// A change holds at once, also for open connections: those that stay allowed go on, the others are
/// cut.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Net {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the policy, the addresses and what went over the link
    Show(Show),
    /// Show connections that were made and refused, the oldest first
    Log(Log),
    /// Open hosts or networks, for good or for a while
    Allow(Change),
    /// Close hosts or networks, even if other rules open them
    Deny(Change),
    /// Replace the whole policy
    Set(Set),
    /// List connections that wait for an answer (mode ask)
    Requests(Show),
    /// Allow or refuse a connection that waits
    Answer(Answer),
    /// Print the smallest policy for what the sandbox has reached (best in mode learn)
    Learn(Learn),
}

#[derive(Debug, Args)]
struct Show {
    /// The sandbox, as `warren ls` lists them
    #[arg(default_value = "@default", hide_default_value = true)]
    id: SandboxWord,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Log {
    /// The sandbox, as `warren ls` lists them
    id: SandboxWord,
    /// Go on with every new entry
    #[arg(long, short)]
    follow: bool,
    /// Only what was refused or asked about
    #[arg(long)]
    denied: bool,
    /// Only entries after this number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    after: u64,
    /// Print one JSON document per line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Change {
    /// The sandbox, as `warren ls` lists them
    id: SandboxWord,
    /// Hosts, *.host, addresses or networks, with :PORT if wanted
    #[arg(required = true, value_name = "RULE")]
    rules: Vec<NetworkRule>,
    /// Only for so long, such as 10m
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    lasting: Option<Duration>,
    /// Print the network as it is then as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Set {
    /// The sandbox, as `warren ls` lists them
    id: SandboxWord,
    /// none, public, allow, ask or learn; rules may follow: allow=pypi.org,*.pythonhosted.org
    #[arg(value_name = "MODE[=RULE,…]", value_parser = network::parse_choice)]
    mode: NetworkChoice,
    #[command(flatten)]
    rules: Rules,
    /// Print the network as it is then as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Answer {
    /// The sandbox, as `warren ls` lists them
    id: SandboxWord,
    /// The request, as `warren net requests` lists them
    #[arg(value_name = "NUMBER")]
    number: u64,
    /// allow or deny
    #[arg(value_name = "ANSWER", value_parser = parse_effect)]
    answer: NetworkEffect,
    /// Only for so long, such as 10m
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    lasting: Option<Duration>,
    /// Print the network as it is then as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Learn {
    /// The sandbox, as `warren ls` lists them
    id: SandboxWord,
    /// Make it the sandbox's policy at once
    #[arg(long)]
    apply: bool,
    /// Print JSON, as the interface takes it
    #[arg(long)]
    json: bool,
}

impl Net {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let client = global.client()?;
        match self.action {
            Action::Show(show) => shown(&client.network(show.id.as_str())?, show.json),
            Action::Log(log) => log.run(&client)?,
            Action::Allow(change) => change.run(&client, NetworkEffect::Allow)?,
            Action::Deny(change) => change.run(&client, NetworkEffect::Deny)?,
            Action::Set(set) => shown(&client.set_network(set.id.as_str(), &set.body()?)?, set.json),
            Action::Requests(show) => requests(&client, &show)?,
            Action::Answer(answer) => answer.run(&client)?,
            Action::Learn(learn) => learn.run(&client)?,
        }
        Ok(())
    }
}

fn shown(status: &NetworkStatus, json: bool) {
    ui::show(json, status, |status| {
        for (name, text) in network::describe(status) {
            ui::print_plain(&format!("{name:<10} {text}"));
        }
        if status.pending > 0 {
            ui::say(&format!("`warren net requests {}` lists what waits", status.sandbox_id));
        }
    });
}

impl Log {
    fn run(&self, client: &Client) -> Result<(), CliError> {
        let id = which::find(client, &self.id)?;
        let id = id.as_str();
        if self.follow {
            let mut events = client.follow_network_log(id, Some(self.after))?;
            while let Some(event) = events.next_event()? {
                self.show(&serde_json::from_str(&event.data).map_err(CliError::new)?)?;
            }
            return Ok(());
        }
        let (mut after, mut refusal) = (self.after, LastRefusal::default());
        loop {
            let page = client.network_log(id, after)?;
            for entry in &page.items {
                self.show(entry)?;
                refusal.saw(entry);
            }
            if page.items.is_empty() || page.next_after <= after {
                break;
            }
            after = page.next_after;
        }
        if let (false, Some(host)) = (self.json, refusal.host()) {
            ui::say(&format!("`warren net allow {id} {host}` opens it; add --for 10m for a while"));
        }
        Ok(())
    }

    fn show(&self, entry: &NetworkLogEntry) -> Result<(), CliError> {
        if self.denied && entry.verdict == NetworkVerdict::Allowed {
            return Ok(());
        }
        if self.json {
            return ui::print_line(&serde_json::to_string(entry).map_err(CliError::new)?);
        }
        ui::print_line(&network::line(entry))
    }
}

impl Change {
    fn run(&self, client: &Client, effect: NetworkEffect) -> Result<(), CliError> {
        let rules = self.rules.iter().map(ToString::to_string).collect();
        let body = ChangeNetworkRules { rules, for_s: seconds(self.lasting) };
        let status = client.change_network(self.id.as_str(), effect, &body)?;
        done(&status, self.json);
        Ok(())
    }
}

/// Prints the network after a change, if that was asked for.
fn done(status: &NetworkStatus, json: bool) {
    if json {
        ui::print_json(status);
    }
}

impl Set {
    fn body(&self) -> Result<NetworkRequest, CliError> {
        let policy = self.rules.policy(Some(&self.mode)).ok_or_else(|| {
            CliError::new("`auto` is for new sandboxes").hint("write none, public, allow, ask or learn")
        })?;
        Ok(network::request(&policy))
    }
}

fn requests(client: &Client, show: &Show) -> Result<(), CliError> {
    let asks = client.network_asks(show.id.as_str())?.items;
    ui::show_table(show.json, ["NUMBER", "AGE", "PROTOCOL", "WANTS", "BY", "TRIED"], &asks, row);
    if let Some(ask) = asks.first().filter(|_| !show.json) {
        let (id, number) = (&show.id, ask.number);
        ui::say(&format!("`warren net answer {id} {number} allow` lets {} pass", ask.rule));
    }
    Ok(())
}

fn row(ask: &NetworkAsk) -> [String; 6] {
    [
        ask.number.to_string(),
        age_of(&ask.asked_at),
        word(&ask.protocol),
        network::destination(ask.host.as_deref(), ask.address.as_deref(), ask.port),
        ask.process.clone().unwrap_or_default(),
        format!("{}×", ask.count),
    ]
}

impl Answer {
    fn run(&self, client: &Client) -> Result<(), CliError> {
        let body = AnswerNetworkAsk { answer: self.answer, for_s: seconds(self.lasting) };
        let status = client.answer_network_ask(self.id.as_str(), self.number, &body)?;
        done(&status, self.json);
        Ok(())
    }
}

impl Learn {
    fn run(&self, client: &Client) -> Result<(), CliError> {
        let id = which::find(client, &self.id)?;
        let learned = client.learned_network(id.as_str())?;
        if learned.allow.is_empty() {
            let text = format!("{id} has reached nothing yet, so there is nothing to learn from");
            return Err(CliError::new(text).hint("let it work in mode learn or public first"));
        }
        ui::show(self.json, &learned, |learned| ui::print(&network::flags(learned)));
        if self.apply {
            client.set_network(id.as_str(), &learned)?;
        }
        Ok(())
    }
}

/// Whole seconds, one at least.
fn seconds(duration: Option<Duration>) -> Option<u64> {
    duration.map(|duration| whole_seconds(duration).max(1))
}

fn parse_effect(text: &str) -> Result<NetworkEffect, String> {
    match text {
        "allow" | "yes" => Ok(NetworkEffect::Allow),
        "deny" | "no" => Ok(NetworkEffect::Deny),
        _ => Err("write allow or deny".to_owned()),
    }
}

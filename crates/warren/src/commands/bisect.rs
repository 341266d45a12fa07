use std::collections::{HashMap, HashSet};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use warren_core::{SandboxId, SandboxWord, parse_duration};
use warren_wire::api::{
    Command, Exec, FileDiff, Fork as ForkBody, JournalEntry, OnExpiry, Snapshot, TakeSnapshot,
};
use warren_wire::client::{Client, DiffQuery};

use super::history;
use crate::error::CliError;
use crate::global::Global;
use crate::time::whole_seconds;
use crate::travel::path::{self, Step};
use crate::travel::point;
use crate::travel::present::{action, ending, one_line, print_changes, short};
use crate::travel::search::{self, Verdict};
use crate::travel::throwaway::{Forks, with_forks};
use crate::ui;

const EXAMPLES: &str = "\
Examples:
  warren bisect \"$id\" --good green -- make test
  warren bisect \"$id\" --good 3 --bad 40 -- sh -c '! grep -q oops /var/log/app.log'
  warren bisect \"$id\" --good start --json -- ./check | jq -r '.culprits[].command'";

/// Find the command that broke something, by testing states between a good and a bad one.
///
/// CMD runs in throw-away forks of captured states: exit code 0 means that a state is good, 125
/// that it cannot be tested, anything else that it is bad. Each run rules out half of the states,
/// so 64 commands take 6 runs. The good and the bad state are tested first. The sandbox itself is
/// not touched.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Bisect {
    /// The sandbox, alive or ended
    id: SandboxWord,
    /// A state that was good: an entry of `warren log`, or a snapshot's id or name
    #[arg(long, value_name = "ENTRY|SNAP")]
    good: String,
    /// A state that is bad [default: the sandbox as it is now]
    #[arg(long, value_name = "ENTRY|SNAP")]
    bad: Option<String>,
    /// End a run after this long; it counts as bad
    #[arg(long, value_parser = parse_duration, value_name = "DURATION", default_value = "10m")]
    timeout: Duration,
    /// The user who runs it: a name, uid or uid:gid of the sandbox
    #[arg(long, short, value_name = "USER")]
    user: Option<String>,
    /// The directory it starts in
    #[arg(long, short, value_name = "PATH")]
    workdir: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The command that tells good from bad, and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

/// The result, as JSON shows it.
#[derive(Debug, Serialize)]
struct Found {
    /// Several if commands overlapped or states could not be tested; none if files were changed
    /// without a command.
    culprits: Vec<JournalEntry>,
    /// The last good state.
    before_id: String,
    /// The first bad state.
    after_id: String,
    /// The differences between the two.
    changes: Vec<FileDiff>,
    truncated: bool,
    /// The number of states between the good and the bad one.
    states: usize,
    /// The number of them that were tested; the good and the bad one are not counted.
    runs: u32,
}

/// A run's fork lives this much longer than it may be needed, in case nobody removes it.
const SPARE_SECONDS: u64 = 120;

impl Bisect {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let (client, id) = global.sandbox(&self.id)?;
        let remover = client.clone();
        let json = self.json;
        let found = with_forks(
            move |id| drop(remover.delete_sandbox(id)),
            move |forks| self.find(&client, &id, forks),
        )?;
        ui::show(json, &found, tell);
        Ok(())
    }

    fn find(&self, client: &Client, id: &SandboxId, forks: &Forks) -> Result<Found, CliError> {
        let steps = self.steps(client, id)?;
        let (Some(good), Some(bad)) = (steps.first(), steps.last()) else {
            return Err(CliError::new("there is no state to test"));
        };
        if steps.len() < 2 {
            return Err(CliError::new("the good and the bad state have the same files")
                .hint(format!("`warren log {}` shows what changed files", id)));
        }
        let trial = Trial { bisect: self, client, forks };
        trial.expect(good, Verdict::Good)?;
        trial.expect(bad, Verdict::Bad)?;
        let last = steps.len() - 1;
        let place = |index: usize| format!("{index} of {last}");
        let found = search::search(last, |index| match steps.get(index) {
            Some(step) => trial.test(step, &place(index)),
            None => Ok(Verdict::Skip),
        })?;
        let suspects = steps.get(found.first..=found.last).unwrap_or_default();
        let (Some(before), Some(after)) = (steps.get(found.first - 1), suspects.last()) else {
            return Err(CliError::new("there is no state to test"));
        };
        let (before_id, after_id) = (before.state.snapshot_id.clone(), after.state.snapshot_id.clone());
        let diff = client.diff(&DiffQuery {
            from: before_id.clone(),
            to: after_id.clone(),
            ..DiffQuery::default()
        })?;
        let culprits = suspects.iter().flat_map(|step| step.entries.clone()).collect();
        Ok(Found {
            culprits,
            before_id,
            after_id,
            changes: diff.items,
            truncated: diff.truncated,
            states: last - 1,
            runs: found.runs,
        })
    }

    /// The states from the good one to the bad one.
    fn steps(&self, client: &Client, id: &SandboxId) -> Result<Vec<Step>, CliError> {
        let state = |word: &str| point::state_of(client, id, word).map(|id| id.to_string());
        let good = state(&self.good)?;
        let bad = match &self.bad {
            Some(word) if word != id.as_str() && word != self.id.as_str() => state(word)?,
            _ => now(client, id)?,
        };
        let listed = point::snapshots(client, Some(id.as_str()))?;
        let mut known: HashMap<String, Snapshot> =
            listed.into_iter().map(|snapshot| (snapshot.snapshot_id.clone(), snapshot)).collect();
        let mut look = |id: &str| match known.get(id) {
            Some(snapshot) => Ok(snapshot.clone()),
            None => {
                let snapshot = client.snapshot(id)?;
                known.insert(id.to_owned(), snapshot.clone());
                Ok(snapshot)
            }
        };
        let states = path::states(&good, &bad, &mut look)?;
        let sandboxes: HashSet<&str> = states.iter().map(|state| state.sandbox_id.as_str()).collect();
        let mut journal = Vec::new();
        for sandbox in sandboxes {
            match history::entries(client, sandbox, None, false) {
                Ok(entries) => journal.extend(entries),
                // A sandbox that is gone has no journal any more; its states can be tested.
                Err(error) if sandbox == id.as_str() => return Err(error),
                Err(_) => {}
            }
        }
        let known = known.into_keys().collect();
        Ok(path::steps(states, &journal, &known))
    }
}

/// The state of a sandbox as it is; of one that has ended, as it was.
fn now(client: &Client, id: &SandboxId) -> Result<String, CliError> {
    match client.take_snapshot(id.as_str(), &TakeSnapshot::default()) {
        Ok(taken) => Ok(taken.snapshot_id),
        Err(error) => match client.sandbox(id.as_str()) {
            Ok(sandbox) if sandbox.death.is_some() && sandbox.snapshot_id.is_some() => {
                Ok(sandbox.snapshot_id.unwrap_or_default())
            }
            _ => Err(error.into()),
        },
    }
}

/// Tests states.
struct Trial<'a> {
    bisect: &'a Bisect,
    client: &'a Client,
    forks: &'a Forks,
}

impl Trial<'_> {
    /// Insists that an end of the search is what it is said to be.
    fn expect(&self, step: &Step, wanted: Verdict) -> Result<(), CliError> {
        let (word, flag) = if wanted == Verdict::Good { ("good", "--good") } else { ("bad", "--bad") };
        let found = self.test(step, flag)?;
        if found == wanted {
            return Ok(());
        }
        let is = match found {
            Verdict::Good => "the command succeeds there",
            Verdict::Bad => "the command fails there",
            Verdict::Skip => "the command says that it cannot be told",
        };
        Err(CliError::new(format!("{} is not {word}: {is}", short(&step.state.snapshot_id)))
            .hint(format!("{flag} must name a state for which the command tells that it is {word}")))
    }

    fn test(&self, step: &Step, place: &str) -> Result<Verdict, CliError> {
        let seconds = whole_seconds(self.bisect.timeout).max(1);
        let body = ForkBody {
            client: Some("warren bisect".to_owned()),
            ttl_s: Some(seconds.saturating_add(SPARE_SECONDS)),
            on_expiry: Some(OnExpiry::Delete),
            ..ForkBody::default()
        };
        let made = self.client.fork_snapshot(&step.state.snapshot_id, &body)?;
        let fork = self.forks.first_of(made)?;
        let exec = Exec {
            command: Command::Words(self.bisect.command.clone()),
            cwd: self.bisect.workdir.clone(),
            user: self.bisect.user.clone(),
            timeout_s: Some(seconds),
            max_output_bytes: Some(0),
            ..Exec::default()
        };
        let ended = self.client.exec(&fork.id, &exec)?;
        let verdict = Verdict::of_exit(ended.exit_code);
        let what: String = step.entries.iter().map(|entry| format!(", entry {}", entry.number)).collect();
        let word = match verdict {
            Verdict::Good => "good",
            Verdict::Bad => "bad",
            Verdict::Skip => "cannot be told",
        };
        ui::say(&format!("{place}: {}{what}: {word}", short(&step.state.snapshot_id)));
        Ok(verdict)
    }
}

fn tell(found: &Found) {
    match found.culprits.as_slice() {
        [] => ui::print("files were changed without a command, between two snapshots:"),
        [entry] => {
            ui::print_plain(&format!(
                "the culprit is entry {} (turn {}, exit {}): {}",
                entry.number,
                entry.turn,
                ending(entry),
                one_line(&action(entry), 200)
            ));
        }
        several => {
            ui::print("the culprit is one of");
            for entry in several {
                ui::print_plain(&format!("  entry {}: {}", entry.number, one_line(&action(entry), 200)));
            }
        }
    }
    history::say_not_kept(&found.culprits);
    print_changes(&found.changes, found.truncated);
    let runs = if found.runs == 1 { "run" } else { "runs" };
    ui::print(&format!(
        "{} → {}, found in {} {runs} among {} states",
        short(&found.before_id),
        short(&found.after_id),
        found.runs,
        found.states
    ));
}

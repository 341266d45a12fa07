use clap::Args;
use warren_core::{ByteSize, ErrorCode, SandboxId, SandboxWord};
use warren_wire::api::Death;

use crate::error::{CliError, is};
use crate::global::Global;
use crate::time::age_of;
use crate::travel::present::one_line;
use crate::ui;
use crate::word::word;

const EXAMPLES: &str = "\
Examples:
  warren why \"$id\"
  warren why \"$id\" --all
  warren why \"$id\" --json | jq -r .cause";

/// Show why a sandbox ended, with the end of its output.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Why {
    /// The sandbox, as `warren ls --all` lists them [default: the default sandbox]
    id: Option<SandboxWord>,
    /// Its last processes and output in full too
    #[arg(long, short)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Why {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let (client, id) = global.sandbox_or_default(self.id.as_ref())?;
        match client.death(id.as_str()) {
            Ok(death) if self.json => ui::print_json(&death),
            Ok(death) => told(&id, &death, self.all).iter().for_each(|line| ui::print_plain(line)),
            Err(error) if is(&error, ErrorCode::NotDead) => {
                let sandbox = client.sandbox(id.as_str())?;
                return Err(CliError::new(format!("{} has not ended: it is {}", id, word(&sandbox.status))));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// The number of lines that `warren why` prints without `--all`.
const BRIEF: usize = 10;

/// The lines that say how it ended.
fn told(id: &SandboxId, death: &Death, all: bool) -> Vec<String> {
    let by = death.killed_by.as_ref().map(|by| format!(", by {by}")).unwrap_or_default();
    let files = if death.files_kept {
        format!("kept: `warren resume {id}` starts it again")
    } else {
        "deleted: it cannot be resumed".to_owned()
    };
    let mut lines = vec![
        format!("{id} ended: {}{by}", word(&death.cause)),
        format!("  {}", if all { death.detail.clone() } else { one_line(&death.detail, 200) }),
        format!("  at       {} ({} ago)", death.at, age_of(&death.at)),
        format!("  files    {files}"),
    ];
    if let Some(usage) = &death.usage {
        let (memory, disk) = (ByteSize(usage.memory_peak_bytes), ByteSize(usage.disk_bytes));
        let cpu = usage.cpu_ns as f64 / 1e9;
        lines
            .push(format!("  used     {memory} of memory at most, {cpu:.2} s of processors, {disk} of disk"));
        if usage.oom_kills > 0 {
            lines.push(format!("  killed   {} processes, for want of memory", usage.oom_kills));
        }
    }
    let output: Vec<String> = death.last_output.trim_end().lines().map(str::to_owned).collect();
    let mut room = if all { usize::MAX } else { BRIEF.saturating_sub(lines.len() + 1) };
    // Shows the end of a list, as far as there is room, and counts what was left out.
    let mut section = |title: &str, items: &[String]| {
        let shown = items.len().min(room.saturating_sub(1));
        if shown > 0 {
            room -= shown + 1;
            lines.push(format!("  {title}"));
            lines.extend(items[items.len() - shown..].iter().map(|item| format!("    {item}")));
        }
        items.len() - shown
    };
    let (more, processes) = (section("last output", &output), section("processes", &death.processes));
    if more + processes > 0 {
        lines.push(format!("  --all shows {processes} more processes and {more} more lines of output"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use warren_wire::api::{DeathCause, Usage};

    use super::*;

    #[test]
    fn ten_lines_tell_why_and_all_of_them_the_rest() {
        let id: SandboxId = "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa".parse().unwrap();
        let death = Death {
            cause: DeathCause::Oom,
            detail: "it reached its limit".to_owned(),
            at: "2026-01-01T00:00:00.000Z".to_owned(),
            killed_by: None,
            files_kept: true,
            usage: Some(Usage { oom_kills: 2, ..Usage::default() }),
            processes: vec!["1 sh".to_owned(), "2 python3".to_owned()],
            snapshot_id: None,
            last_output: (0..50).map(|line| format!("line {line}\n")).collect(),
        };
        let brief = told(&id, &death, false);
        assert_eq!(brief.len(), BRIEF, "{brief:#?}");
        assert_eq!(
            brief[7..],
            ["    line 48", "    line 49", "  --all shows 2 more processes and 48 more lines of output"]
        );
        let all = told(&id, &death, true);
        assert!(all.contains(&"    2 python3".to_owned()) && all.contains(&"    line 0".to_owned()));
        let quiet = Death { processes: Vec::new(), last_output: "x".to_owned(), ..death };
        assert_eq!(told(&id, &quiet, false).last().unwrap(), "    x");
    }
}

use clap::Args;
use warren_core::{ByteSize, ErrorCode, SandboxId};
use warren_wire::api::Death;

use crate::error::{CliError, is};
use crate::global::Global;
use crate::ui;
use crate::word::word;

/// Show why a sandbox ended, with its last processes and output.
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// The sandbox, as `warren ls --all` lists them
    id: SandboxId,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Why {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let client = global.client()?;
        match client.death(self.id.as_str()) {
            Ok(death) if self.json => ui::print_json(&death),
            Ok(death) => print(&self.id, &death),
            Err(error) if is(&error, ErrorCode::NotDead) => {
                let sandbox = client.sandbox(self.id.as_str())?;
                return Err(CliError::new(format!(
                    "{} has not ended: it is {}",
                    self.id,
                    word(&sandbox.status)
                )));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

fn print(id: &SandboxId, death: &Death) {
    let by = death.killed_by.as_ref().map(|by| format!(", by {by}")).unwrap_or_default();
    ui::print(&format!("{id} ended: {}{by}", word(&death.cause)));
    ui::print_plain(&format!("  {}", death.detail));
    ui::print(&format!("  at       {}", death.at));
    let files = if death.files_kept {
        format!("kept: `warren resume {id}` starts it again")
    } else {
        "deleted".to_owned()
    };
    ui::print(&format!("  files    {files}"));
    if let Some(usage) = &death.usage {
        ui::print(&format!("  memory   {} at most", ByteSize(usage.memory_peak_bytes)));
        ui::print(&format!("  cpu      {:.2} s", usage.cpu_ns as f64 / 1e9));
        ui::print(&format!("  disk     {}", ByteSize(usage.disk_bytes)));
        if usage.oom_kills > 0 {
            ui::print(&format!("  out of memory, processes killed: {}", usage.oom_kills));
        }
    }
    block("processes", &death.processes.join("\n"));
    block("last output", death.last_output.trim_end());
}

fn block(title: &str, text: &str) {
    if text.is_empty() {
        return;
    }
    ui::print(&format!("  {title}"));
    for line in text.lines() {
        ui::print_plain(&format!("    {line}"));
    }
}

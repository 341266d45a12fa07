//! Ends the processes of sandboxes that no server looks after, before the machine goes down: it
//! would wait for a frozen one, which takes no signals.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use warren_core::SandboxId;
use warren_server::assembly::sandbox_directories;
use warren_server::config::Config;

use super::systemd::machine_goes_down;
use crate::error::CliError;
use crate::global::Global;
use crate::local::{Local, require_root};
use crate::settings::SettingFlags;
use crate::ui;

const AT_ONCE: usize = 8;

/// Ends every process of every sandbox in the data directory. Their files stay.
pub(super) fn rest(global: &Global, now: bool) -> Result<(), CliError> {
    let place = global.data_dir()?;
    // Somebody may have stopped the unit while the machine stays up.
    if !(now || machine_goes_down()) || !sandbox_directories(&place).any(|path| path.is_dir()) {
        return Ok(());
    }
    require_root()?;
    // Wrong settings must not keep the machine from going down.
    let config =
        SettingFlags::default().load(global).map_or_else(|_| Config::default(), |loaded| loaded.config);
    let local = Local::with(global, config)?;
    let alive: Vec<SandboxId> =
        local.list()?.into_iter().filter(|found| found.alive).map(|found| found.id).collect();
    let failed = halt(&local, &alive);
    let directory = std::fs::File::open(&place).map_err(CliError::new)?;
    rustix::fs::syncfs(&directory).map_err(CliError::new)?;
    ui::print(&format!("{} of {} sandboxes were brought to rest", alive.len() - failed, alive.len()));
    if failed == 0 { Ok(()) } else { Err(CliError::new(format!("{failed} sandboxes did not end"))) }
}

/// Halts sandboxes, several at once, and counts those that did not end.
fn halt(local: &Local, ids: &[SandboxId]) -> usize {
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        while let Some(id) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = local.halt(id) {
                failed.fetch_add(1, Ordering::Relaxed);
                ui::complain(&error.chain());
            }
        }
    };
    thread::scope(|scope| (0..AT_ONCE.min(ids.len())).for_each(|_| drop(scope.spawn(work))));
    failed.into_inner()
}

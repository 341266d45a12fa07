//! Talks to systemd through its own commands.

use std::fmt;
use std::process::Command;

use crate::error::CliError;

/// The state of the unit, in systemd's words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    active: String,
    sub: String,
    enabled: String,
}

impl State {
    pub(super) fn is_active(&self) -> bool {
        ["active", "reloading", "activating"].contains(&self.active.as_str())
    }

    /// Tells that it runs, or starts with the machine.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_active() || self.enabled == "enabled"
    }

    /// Tells that it will not start any more by itself.
    pub(super) fn has_failed(&self) -> bool {
        ["failed", "inactive"].contains(&self.active.as_str())
    }

    fn read(text: &str) -> Self {
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            line.unwrap_or_default().to_owned()
        };
        Self { active: value("ActiveState"), sub: value("SubState"), enabled: value("UnitFileState") }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.active, self.sub)?;
        if self.enabled == "enabled" { Ok(()) } else { write!(f, ", does not start with the machine") }
    }
}

/// Runs `systemctl`, and answers its output.
pub(super) fn systemctl(words: &[&str]) -> Result<String, CliError> {
    let failed = |why: String| CliError::new(format!("systemctl {}: {why}", words.join(" ")));
    let output = Command::new("systemctl").args(words).output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

pub(super) fn state() -> Result<State, CliError> {
    let properties = ["show", "--property=ActiveState,SubState,UnitFileState", "warren.service"];
    systemctl(&properties).map(|text| State::read(&text))
}

/// Tells whether systemd is about to end everything.
pub(super) fn machine_goes_down() -> bool {
    let asked = Command::new("systemctl").arg("is-system-running").output();
    asked.is_ok_and(|answer| answer.stdout.trim_ascii() == b"stopping")
}

/// The last lines of the service's log, or nothing if that cannot be read.
pub(super) fn journal(lines: usize) -> String {
    let lines = format!("--lines={lines}");
    let words = ["--unit=warren.service", "--no-pager", "--output=cat", &lines];
    let output = Command::new("journalctl").args(words).output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_unit_is_read() {
        let state = State::read("ActiveState=active\nSubState=running\nUnitFileState=enabled\n");
        assert!(state.is_active() && state.is_wanted() && !state.has_failed());
        assert_eq!(state.to_string(), "active (running)");
        let state = State::read("UnitFileState=disabled\nActiveState=failed\nSubState=failed\n");
        assert!(!state.is_active() && !state.is_wanted() && state.has_failed());
        assert_eq!(state.to_string(), "failed (failed), does not start with the machine");
    }
}

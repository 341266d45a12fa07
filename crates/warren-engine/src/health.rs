use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;
use warren_core::{Capabilities, Check, CheckStatus, DiskSpace, IsolationError};

use crate::state::Probe;
use crate::{Engine, Mode};

/// How long a backend may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The engine's health.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Health {
    pub status: HealthStatus,
    /// Problems, in sentences. Empty when all is well.
    pub problems: Vec<String>,
    /// Each backend, and whether it can make sandboxes.
    pub backends: BTreeMap<String, bool>,
    pub disk: Option<DiskSpace>,
    pub sandboxes: u64,
    pub max_sandboxes: u64,
    pub sessions: u64,
    /// Commands, calls of tools and calls on files that somebody waits for, in all sandboxes.
    pub active_tools: u64,
    pub uptime_s: u64,
    /// Errors of the engine's own making since it started.
    pub errors: u64,
    #[serde(skip)]
    pub mode: Option<Mode>,
}

/// A backend that is switched on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendInfo {
    pub name: String,
    /// Absent: it could not be opened.
    pub capabilities: Option<Capabilities>,
    /// Why it cannot make sandboxes, in sentences. Empty when it can.
    pub problems: Vec<String>,
}

/// In order of gravity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    Ok,
    Warning,
    /// New work is refused.
    Critical,
}

/// Something that is wrong.
struct Problem {
    status: HealthStatus,
    text: String,
}

impl Engine {
    pub async fn health(&self) -> Health {
        let mut probes = self.probe_backends().await;
        let absent = self.shared.parts.absent.iter();
        probes.extend(absent.map(|absent| (absent.name.clone(), vec![absent.why.clone()])));
        let disk = self.tightest_disk().await;
        let (sandboxes, max_sandboxes) = (self.shared.seats.count(), self.shared.settings.max_sandboxes);
        let (active, detached) = self.count_sessions().await;
        let mode = self.mode();
        let problems = [
            self.mode_problem(&mode),
            self.disk_problem(&disk),
            backend_problem(&probes),
            seats_problem(sandboxes, max_sandboxes),
        ];
        let problems: Vec<Problem> = problems.into_iter().flatten().collect();
        let now_ms = self.shared.parts.clock.boot_ms();
        Health {
            status: problems.iter().map(|problem| problem.status).max().unwrap_or(HealthStatus::Ok),
            problems: problems.into_iter().map(|problem| problem.text).collect(),
            backends: self.usable_backends(&probes),
            disk: disk.ok().flatten(),
            sandboxes: sandboxes as u64,
            max_sandboxes: max_sandboxes as u64,
            sessions: active + detached,
            active_tools: self
                .shared
                .registry
                .all()
                .iter()
                .map(|cell| u64::from(cell.life().at_work()))
                .sum(),
            uptime_s: now_ms.saturating_sub(self.shared.started_ms) / 1000,
            errors: self.shared.figures.faults(),
            mode: Some(mode),
        }
    }

    fn usable_backends(&self, probes: &[Probe]) -> BTreeMap<String, bool> {
        probes.iter().map(|(name, failed)| (name.clone(), failed.is_empty())).collect()
    }

    /// Every backend that is switched on, in the order in which they are tried, and what each can
    /// do.
    pub async fn backends(&self) -> Vec<BackendInfo> {
        let probes: BTreeMap<String, Vec<String>> = self.probe_backends().await.into_iter().collect();
        let here = self.shared.backends.iter().map(|backend| BackendInfo {
            name: backend.name().to_owned(),
            capabilities: Some(backend.port.capabilities().clone()),
            problems: probes.get(backend.name()).cloned().unwrap_or_default(),
        });
        let absent = self.shared.parts.absent.iter().map(|absent| BackendInfo {
            name: absent.name.clone(),
            capabilities: None,
            problems: vec![absent.why.clone()],
        });
        here.chain(absent).collect()
    }

    async fn probe_backends(&self) -> Vec<Probe> {
        let now_ms = self.shared.parts.clock.boot_ms();
        if let Some((at_ms, probes)) = self.shared.probes.lock().as_ref()
            && now_ms.saturating_sub(*at_ms) < self.shared.settings.health_ms
        {
            return self.with_away(probes.clone());
        }
        let probes = join_all(self.shared.backends.iter().map(|backend| async move {
            let port = Arc::clone(&backend.port);
            let probed = backend.answer(PATIENCE, move || failures(&port.probe())).await;
            (backend.name().to_owned(), probed.unwrap_or_else(|| vec!["it does not answer".to_owned()]))
        }))
        .await;
        *self.shared.probes.lock() = Some((now_ms, probes.clone()));
        self.with_away(probes)
    }

    /// A backend that is known to be away is not well, whatever it said before.
    fn with_away(&self, mut probes: Vec<Probe>) -> Vec<Probe> {
        for (backend, (_, failed)) in self.shared.backends.iter().zip(&mut probes) {
            if let Some(why) = backend.away() {
                failed.insert(0, format!("it is away: {why}"));
            }
        }
        probes
    }

    /// The disk with the least room among those of the backends. An error says that one cannot be
    /// seen; a backend that does not answer is a problem of its own.
    async fn tightest_disk(&self) -> Result<Option<DiskSpace>, IsolationError> {
        let spaces = join_all(self.shared.backends.iter().map(|backend| {
            let port = Arc::clone(&backend.port);
            backend.answer(PATIENCE, move || port.space())
        }))
        .await;
        let seen: Vec<_> = spaces.into_iter().flatten().collect::<Result<_, _>>()?;
        Ok(seen.into_iter().flatten().min_by_key(|space| space.free_bytes))
    }

    fn mode_problem(&self, mode: &Mode) -> Option<Problem> {
        match mode {
            Mode::ReadOnly { reason } => Some(Problem {
                status: HealthStatus::Critical,
                text: format!("only questions are answered: {reason}"),
            }),
            Mode::Normal => None,
        }
    }

    fn disk_problem(&self, disk: &Result<Option<DiskSpace>, IsolationError>) -> Option<Problem> {
        let limits = self.shared.settings.disk;
        let Ok(space) = disk else {
            let text = "the room on the disk cannot be seen".to_owned();
            return Some(Problem { status: HealthStatus::Critical, text });
        };
        let space = space.as_ref()?;
        let free_mib = space.free_bytes >> 20;
        if space.free_bytes < limits.critical_bytes {
            let text = format!("the disk has {free_mib} MiB left, and new work is refused");
            return Some(Problem { status: HealthStatus::Critical, text });
        }
        (space.free_bytes < limits.warn_bytes).then(|| Problem {
            status: HealthStatus::Warning,
            text: format!("the disk has {free_mib} MiB left"),
        })
    }
}

fn failures(checks: &[Check]) -> Vec<String> {
    let failed = checks.iter().filter(|check| check.status == CheckStatus::Failed);
    failed.map(|check| format!("{}: {}", check.name, check.found)).collect()
}

/// One backend that cannot is a warning; none that can is the end of work.
fn backend_problem(probes: &[Probe]) -> Option<Problem> {
    let failed: Vec<String> = probes
        .iter()
        .filter(|(_, failed)| !failed.is_empty())
        .map(|(name, failed)| format!("{name} ({})", failed.join(", ")))
        .collect();
    let status = if failed.len() == probes.len() { HealthStatus::Critical } else { HealthStatus::Warning };
    let text = format!("sandboxes cannot be made by {}", failed.join(", "));
    (!failed.is_empty()).then_some(Problem { status, text })
}

fn seats_problem(taken: usize, most: usize) -> Option<Problem> {
    let text = format!("{taken} sandboxes exist, and no more than {most} may");
    (taken >= most).then_some(Problem { status: HealthStatus::Warning, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(name: &str, failed: &[&str]) -> Probe {
        (name.to_owned(), failed.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn work_goes_on_while_one_backend_is_well() {
        assert!(backend_problem(&[probe("a", &[]), probe("b", &[])]).is_none());
        let one = backend_problem(&[probe("a", &["cgroups: none"]), probe("b", &[])]).unwrap();
        assert_eq!(one.status, HealthStatus::Warning);
        assert_eq!(one.text, "sandboxes cannot be made by a (cgroups: none)");
        let all = backend_problem(&[probe("a", &["cgroups: none"])]).unwrap();
        assert_eq!(all.status, HealthStatus::Critical);
    }

    #[test]
    fn a_full_house_is_a_warning() {
        assert!(seats_problem(9, 10).is_none());
        assert_eq!(seats_problem(10, 10).unwrap().status, HealthStatus::Warning);
    }
}

//! One instance of the daemon's, by calls to it. Each can be repeated.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};
use ureq::http::Method;
use warren_core::SandboxId;

use super::client::{Client, LxdError};

/// How long an image may take to be unpacked.
const MAKE_PATIENCE: Duration = Duration::from_secs(600);
/// How long a start, a stop or a removal may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the daemon may be busy with an instance by itself.
const BUSY_PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);

/// The data directory that an instance belongs to.
pub(super) const INSTANCE: &str = "user.warren.instance";
/// The sandbox that it is.
pub(super) const SANDBOX: &str = "user.warren.sandbox";

/// An instance as the daemon tells it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Instance {
    pub(super) name: String,
    pub(super) status: String,
    pub(super) config: BTreeMap<String, String>,
}

/// The first process, and what an instance takes up.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct State {
    pub(super) pid: i64,
    #[serde(default)]
    pub(super) disk: Option<BTreeMap<String, DiskState>>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct DiskState {
    #[serde(default)]
    pub(super) usage: i64,
}

/// One id in an id map.
#[derive(Debug, Clone, Deserialize)]
struct IdMap {
    #[serde(rename = "Isuid")]
    is_uid: bool,
    #[serde(rename = "Hostid")]
    host: u32,
    #[serde(rename = "Nsid")]
    inside: u32,
}

impl Instance {
    pub(super) fn is_stopped(&self) -> bool {
        self.status == "Stopped"
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.status == "Frozen"
    }

    pub(super) fn belongs_to(&self, instance: &str) -> bool {
        self.config.get(INSTANCE).is_some_and(|found| found == instance)
    }

    /// The host's number of the sandbox's root.
    pub(super) fn id_base(&self) -> Option<u32> {
        let maps: Vec<IdMap> = serde_json::from_str(self.config.get("volatile.idmap.next")?).ok()?;
        maps.into_iter().find(|map| map.is_uid && map.inside == 0).map(|map| map.host)
    }
}

/// The name of a sandbox's instance.
pub(super) fn name(id: &SandboxId) -> String {
    format!("warren-{id}")
}

fn path(id: &SandboxId) -> String {
    format!("/1.0/instances/{}", name(id))
}

impl Client {
    /// All instances, ours and others'.
    pub(super) fn instances(&self) -> Result<Vec<Instance>, LxdError> {
        self.get("/1.0/instances?recursion=1")
    }

    pub(super) fn instance(&self, id: &SandboxId) -> Result<Instance, LxdError> {
        self.get(&path(id))
    }

    pub(super) fn state(&self, id: &SandboxId) -> Result<State, LxdError> {
        self.get(&format!("{}/state", path(id)))
    }

    pub(super) fn make(&self, body: &Value) -> Result<(), LxdError> {
        self.change(Method::POST, "/1.0/instances", body, MAKE_PATIENCE)
    }

    /// Sets parts of an instance's configuration.
    pub(super) fn configure(&self, id: &SandboxId, config: &Value) -> Result<(), LxdError> {
        let body = json!({ "config": config });
        self.repeat(|| self.change(Method::PATCH, &path(id), &body, PATIENCE))
    }

    fn act(&self, id: &SandboxId, action: &str) -> Result<(), LxdError> {
        let body = json!({ "action": action, "timeout": PATIENCE.as_secs(), "force": true });
        self.change(Method::PUT, &format!("{}/state", path(id)), &body, PATIENCE)
    }

    pub(super) fn start(&self, id: &SandboxId) -> Result<(), LxdError> {
        self.act(id, "start")
    }

    pub(super) fn set_frozen(&self, id: &SandboxId, frozen: bool) -> Result<(), LxdError> {
        self.act(id, if frozen { "freeze" } else { "unfreeze" })
    }

    /// The end of what the first process wrote to its console.
    pub(super) fn console(&self, id: &SandboxId) -> String {
        const MOST: usize = 2048;
        self.log(&format!("{}/logs/console.log", path(id)), MOST)
    }

    /// Ends every process.
    pub(super) fn stop(&self, id: &SandboxId) -> Result<(), LxdError> {
        self.repeat(|| {
            if self.instance(id)?.is_stopped() {
                return Ok(());
            }
            self.act(id, "stop")
        })
    }

    /// Ends and removes an instance, unless it is another data directory's.
    pub(super) fn remove(&self, id: &SandboxId, instance: &str) -> Result<(), LxdError> {
        let removed = self.repeat(|| {
            let found = self.instance(id)?;
            if !found.belongs_to(instance) {
                return Ok(());
            }
            if !found.is_stopped() {
                self.stop(id)?;
            }
            self.change(Method::DELETE, &path(id), &Value::Null, PATIENCE)
        });
        match removed {
            Err(error) if error.is_not_found() => Ok(()),
            answer => answer,
        }
    }

    /// Tries again what failed, for a while: the daemon refuses any change while it is busy with
    /// the instance, such as noticing that its first process has ended.
    fn repeat(&self, attempt: impl Fn() -> Result<(), LxdError>) -> Result<(), LxdError> {
        let deadline = Instant::now() + BUSY_PATIENCE;
        loop {
            match attempt() {
                Err(LxdError::Failed { .. } | LxdError::Refused { code: 500.., .. })
                    if Instant::now() < deadline =>
                {
                    std::thread::sleep(PAUSE);
                }
                answer => return answer,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_an_instance_is_read_from_its_map() {
        let map = r#"[{"Isuid":false,"Isgid":true,"Hostid":7,"Nsid":0,"Maprange":65536},
                      {"Isuid":true,"Isgid":false,"Hostid":165536,"Nsid":0,"Maprange":65536}]"#;
        let of = |map: &str| Instance {
            name: "warren-x".to_owned(),
            status: "Stopped".to_owned(),
            config: [("volatile.idmap.next".to_owned(), map.to_owned())].into(),
        };
        assert_eq!(of(map).id_base(), Some(165_536));
        assert_eq!((of("[]").id_base(), of("garbage").id_base()), (None, None), "privileged, or unknown");
    }

    #[test]
    fn an_instance_belongs_to_the_data_directory_that_it_names() {
        let config = [(INSTANCE.to_owned(), "one".to_owned())].into();
        let found = Instance { name: String::new(), status: String::new(), config };
        assert!(found.belongs_to("one") && !found.belongs_to("two") && !found.belongs_to(""));
    }
}

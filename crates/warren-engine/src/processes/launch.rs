use warren_wire::guest::{FailureCode, ProcessInfo, ProcessSelector, Reply, Request, Start};

use super::{LaunchStatus, Launched};
use crate::EngineError;
use crate::error::Field;
use crate::guest::{ANSWER, Guest};

/// The variable that tells a process its port, and everybody else which port is whose.
const PORT: &str = "PORT=";

impl Guest {
    pub(super) async fn launch_on(&self, mut spec: Start, port: u16) -> Result<Launched, EngineError> {
        give_port(&mut spec, port);
        let process = self.spawn(spec).await?;
        self.judge(process, port).await
    }

    pub(super) async fn launch_status(&self, selector: &ProcessSelector) -> Result<Launched, EngineError> {
        let process = self.process(selector).await?;
        match port_of(&process) {
            Some(port) => self.judge(process, port).await,
            None => Err(EngineError::invalid(Field::Process, "the process was not given a port")),
        }
    }

    async fn judge(&self, process: ProcessInfo, port: u16) -> Result<Launched, EngineError> {
        let status = match process.exit {
            Some(_) => LaunchStatus::Exited,
            None if self.answers(port).await? => LaunchStatus::Running,
            None => LaunchStatus::Starting,
        };
        Ok(Launched { process, port, status })
    }

    /// True if something listens on the port.
    async fn answers(&self, port: u16) -> Result<bool, EngineError> {
        match self.ask(&Request::Connect { port }, ANSWER).await {
            Ok(Reply::Done) => Ok(true),
            Ok(_) => Err(self.unexpected("something other than a connection")),
            Err(EngineError::Refused(failure))
                if matches!(failure.code, FailureCode::NotFound | FailureCode::Io) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// Tells a process its port, as [`crate::Sandbox::launch`] does.
pub fn give_port(spec: &mut Start, port: u16) {
    spec.env.retain(|variable| !variable.as_bytes().starts_with(PORT.as_bytes()));
    spec.env.push(format!("{PORT}{port}").into());
}

/// The port a process was launched with.
pub fn port_of(process: &ProcessInfo) -> Option<u16> {
    let text =
        process.env.iter().rev().find_map(|variable| variable.as_bytes().strip_prefix(PORT.as_bytes()));
    std::str::from_utf8(text?).ok()?.parse().ok().filter(|port| *port != 0)
}

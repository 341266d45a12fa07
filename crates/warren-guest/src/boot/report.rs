//! The two messages on the control socket: the plan in, the report out.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use warren_wire::guest::{BootFailure, BootReport, MAX_PAYLOAD};

/// A step that could not be done.
#[derive(Debug)]
pub(crate) struct Refusal(BootFailure);

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Refusal {
    pub(super) fn new(step: &str, detail: impl Into<String>) -> Self {
        Self(BootFailure { step: step.to_owned(), detail: detail.into(), errno: None })
    }
}

/// Names the step and what it was doing.
pub(super) trait StepResult<T> {
    fn step(self, step: &str, doing: impl AsRef<str>) -> Result<T, Refusal>;
}

impl<T> StepResult<T> for Result<T, Errno> {
    fn step(self, step: &str, doing: impl AsRef<str>) -> Result<T, Refusal> {
        self.map_err(|errno| {
            Refusal(BootFailure {
                step: step.to_owned(),
                detail: format!("{}: {}", doing.as_ref(), std::io::Error::from(errno)),
                errno: Some(errno.raw_os_error()),
            })
        })
    }
}

/// Either message is its length (little endian) and its bytes.
pub(super) fn receive<P>(control: &OwnedFd) -> Result<P, Refusal>
where
    P: for<'a> minicbor::Decode<'a, ()>,
{
    let mut length = [0; 4];
    read_exact(control, &mut length).step("plan", "read the boot plan's length")?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_PAYLOAD {
        return Err(Refusal::new("plan", format!("a boot plan of {length} bytes is too large")));
    }
    let mut packet = vec![0; length];
    read_exact(control, &mut packet).step("plan", "read the boot plan")?;
    minicbor::decode(&packet).map_err(|error| Refusal::new("plan", format!("decode the boot plan: {error}")))
}

/// The backend waits for the report; if it is gone, the lifeline or the next reclaim ends this
/// sandbox.
pub(super) fn send(control: &OwnedFd, refusal: Option<&Refusal>) {
    let report = refusal.map_or(BootReport::Ready, |refusal| BootReport::Failed(refusal.0.clone()));
    let Ok(packet) = minicbor::to_vec(&report) else { return };
    let mut message = u32::try_from(packet.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
    message.extend_from_slice(&packet);
    let _ = rustix::io::write(control, &message);
}

fn read_exact(control: &OwnedFd, mut buffer: &mut [u8]) -> Result<(), Errno> {
    while !buffer.is_empty() {
        match rustix::io::read(control, &mut *buffer) {
            Ok(0) => return Err(Errno::PIPE),
            Ok(count) => buffer = &mut buffer[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

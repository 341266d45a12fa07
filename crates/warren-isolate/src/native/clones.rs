//! What other threads' children do to this process's files. A child has copies of all descriptors from its clone until it
//! executes, so for a moment a file that was written and closed is still open for writing somewhere.

use std::time::{Duration, Instant};

use rustix::io::Errno;

/// Far longer than any clone takes to execute.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(1);

/// Repeats what the kernel refuses with `refusal` as long as a copy is open.
pub(super) fn outwait<T>(refusal: Errno, mut action: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match action() {
            Err(errno) if errno == refusal && Instant::now() < deadline => std::thread::sleep(PAUSE),
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_expected_refusal_is_waited_out() {
        let mut refusals = 3;
        let mut action = || {
            refusals -= 1;
            if refusals > 0 { Err(Errno::BUSY) } else { Ok("done") }
        };
        assert_eq!(outwait(Errno::TXTBSY, &mut action), Err(Errno::BUSY));
        assert_eq!(outwait(Errno::BUSY, &mut action), Ok("done"));
    }
}

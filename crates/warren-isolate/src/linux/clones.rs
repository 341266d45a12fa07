//! Waiting for children that other threads have just cloned. Such a child has copies of all
//! descriptors until it executes, so a file that was written and closed may still be open for
//! writing for a moment.

use std::time::{Duration, Instant};

use rustix::io::Errno;

/// Far longer than a child takes from clone to exec.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(1);

/// Repeats an action while the kernel refuses it with `refusal`.
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

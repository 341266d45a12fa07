//! Forgets old records. Their age is measured by the wall clock; if somebody sets that clock
//! forward, nothing is forgotten early.

use warren_core::catalog::{Catalog, CatalogError};
use warren_core::{Clock, Deadline};

use crate::Engine;
use crate::error::sentence;

/// The time on both clocks at the first start since the machine was switched on.
pub(crate) fn anchor(catalog: &dyn Catalog, clock: &dyn Clock) -> Result<Deadline, CatalogError> {
    let known = catalog.node_record()?.clock_anchor;
    if let Some(anchor) = known.filter(|anchor| anchor.boot_id == clock.boot_id()) {
        return Ok(anchor);
    }
    let anchor = Deadline::after(clock, 0);
    catalog.update_node(&mut |record| record.clock_anchor = Some(anchor.clone()))?;
    Ok(anchor)
}

/// The wall clock's time, or the time that has really passed if that is earlier.
fn believable_unix_ms(anchor: &Deadline, clock: &dyn Clock) -> u64 {
    let passed_ms = clock.boot_ms().saturating_sub(anchor.boot_ms);
    clock.unix_ms().min(anchor.unix_ms.saturating_add(passed_ms))
}

impl Engine {
    /// Forgets what ended long ago.
    pub(crate) async fn forget(&self) {
        let history_ms = self.shared.settings.history_s.saturating_mul(1000);
        let now = believable_unix_ms(&self.shared.anchor, self.shared.parts.clock.as_ref());
        let before = now.saturating_sub(history_ms);
        let forgotten = self
            .catalog(move |catalog| {
                let sandboxes = catalog.forget_sandboxes(catalog.node(), before)?;
                Ok::<_, CatalogError>((sandboxes, catalog.forget_events(before)?))
            })
            .await;
        match forgotten {
            Ok((0, 0)) => {}
            Ok((sandboxes, events)) => tracing::debug!(sandboxes, events, "old records were forgotten"),
            Err(error) => {
                self.fault();
                tracing::warn!(error = sentence(&error), "cannot forget old records");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use warren_testkit::{FakeClock, MemoryCatalog};

    use super::*;

    const YEARS_S: i64 = 10 * 365 * 86_400;

    #[test]
    fn a_wall_clock_that_jumps_is_not_believed_even_by_the_next_start() {
        let (catalog, clock) = (MemoryCatalog::new(), FakeClock::new());
        let first = anchor(&catalog, &clock).unwrap();
        clock.advance_s(60);
        let really = clock.unix_ms();
        clock.jump_wall_s(YEARS_S);
        assert_eq!(believable_unix_ms(&first, &clock), really);
        let second = anchor(&catalog, &clock).unwrap();
        assert_eq!(believable_unix_ms(&second, &clock), really);
    }

    #[test]
    fn a_wall_clock_that_is_set_back_makes_everything_younger() {
        let (catalog, clock) = (MemoryCatalog::new(), FakeClock::new());
        let anchor = anchor(&catalog, &clock).unwrap();
        clock.jump_wall_s(-YEARS_S);
        assert_eq!(believable_unix_ms(&anchor, &clock), clock.unix_ms());
    }

    #[test]
    fn after_a_reboot_there_is_only_the_wall_clock_to_go_by() {
        let (catalog, clock) = (MemoryCatalog::new(), FakeClock::new());
        anchor(&catalog, &clock).unwrap();
        clock.reboot(3600);
        let anchor = anchor(&catalog, &clock).unwrap();
        assert_eq!(believable_unix_ms(&anchor, &clock), clock.unix_ms());
    }
}

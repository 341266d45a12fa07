//! Writing the journal in the background.

use std::time::Duration;

use crate::Engine;
use crate::engine::closed;
use crate::error::sentence;

/// How long a change may wait for others to be written with it.
const WRITE_PAUSE: Duration = Duration::from_millis(50);
/// After this long a journal that could not be written is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

impl Engine {
    /// Writes down what the catalog does not know of the journal. Says whether that is done.
    pub(crate) async fn write_journal(&self) -> bool {
        let engine = self.inner();
        let written =
            self.catalog(move |catalog| engine.shared.journal.write(catalog)).await.map_err(|error| {
                self.fault();
                tracing::error!(error = sentence(&error), "cannot write the journal");
            });
        written.is_ok()
    }

    /// Writes the journal until the engine ends.
    pub(crate) async fn keep_writing_journal(self) {
        let mut closing = self.shared.closing.subscribe();
        let mut pause = WRITE_PAUSE;
        loop {
            if self.shared.journal.is_written() {
                tokio::select! {
                    () = closed(&mut closing) => return,
                    () = self.shared.journal.to_write.notified() => {}
                }
            }
            tokio::select! {
                () = closed(&mut closing) => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = if self.write_journal().await { WRITE_PAUSE } else { RETRY_PAUSE };
        }
    }
}

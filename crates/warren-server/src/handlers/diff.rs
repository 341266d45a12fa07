use std::io::{self, Write};
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::header::CONTENT_TYPE;
use parking_lot::Mutex;
use warren_core::{Change, Differences};
use warren_face::auth::Caller;
use warren_face::error::{ApiError, Code};
use warren_face::transfer::{Pace, export};

use crate::convert;
use crate::extract::{Params, point_in};
use crate::state::AppState;

/// The answer is written as it is found, so that it takes no memory however long it is.
pub(crate) async fn get(
    State(state): State<AppState>,
    caller: Caller,
    params: Params,
) -> Result<Response, ApiError> {
    let (from, to) = (text(&params, "from")?, text(&params, "to")?);
    let options = convert::diff_options(&params)?;
    let from = point_in("from", from, &state, &caller).await?;
    let to = point_in("to", to, &state, &caller).await?;
    let snapshots = state.engine.as_(&caller).snapshots();
    let body = export(Pace::Brisk, move |out| async move {
        let writer = DiffWriter::begin(out);
        let telling = writer.clone();
        let told = snapshots.diff_each(&from, &to, options, move |change| telling.change(&change));
        let end = told.await?;
        // Even the last few bytes may have to wait for the client.
        let ended = tokio::task::spawn_blocking(move || writer.end(end)).await.map_err(ApiError::internal)?;
        ended.map_err(|_| ApiError::new(Code::RequestTimeout, "the client took nothing for too long"))
    });
    Ok(([(CONTENT_TYPE, "application/json")], body.await?).into_response())
}

fn text<'a>(params: &'a Params, field: &str) -> Result<&'a str, ApiError> {
    params.text(field).ok_or_else(|| ApiError::invalid(field, format!("`{field}` is missing")))
}

/// A [`warren_wire::api::Diff`] on its way. A clone goes on with the same one.
#[derive(Clone)]
struct DiffWriter(Arc<Mutex<OpenList>>);

struct OpenList {
    out: Box<dyn Write + Send>,
    /// The text before the next change.
    before: &'static str,
}

impl DiffWriter {
    fn begin(out: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(OpenList { out, before: "{\"items\":[" })))
    }

    /// Says whether anybody still listens.
    fn change(&self, change: &Change) -> bool {
        let mut telling = self.0.lock();
        telling.change(change).is_ok()
    }

    fn end(&self, end: Differences) -> io::Result<()> {
        let mut telling = self.0.lock();
        let before = telling.before;
        if before != "," {
            telling.out.write_all(before.as_bytes())?;
        }
        write!(telling.out, "],\"truncated\":{}}}", end == Differences::More)
    }
}

impl OpenList {
    fn change(&mut self, change: &Change) -> io::Result<()> {
        self.out.write_all(self.before.as_bytes())?;
        self.before = ",";
        serde_json::to_writer(&mut self.out, &convert::change(change)).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use warren_wire::api;

    use super::*;

    /// Keeps what is written where the test sees it.
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn told(changes: usize, end: Differences) -> api::Diff {
        let text = Arc::new(Mutex::new(Vec::new()));
        let writer = DiffWriter::begin(Box::new(Sink(Arc::clone(&text))));
        for number in 0..changes {
            let path = PathBuf::from(format!("/{number}\u{1}"));
            assert!(writer.change(&Change { path, before: None, after: None, text: None }));
        }
        writer.end(end).unwrap();
        let text = text.lock().clone();
        serde_json::from_slice(&text).unwrap()
    }

    #[test]
    fn what_is_written_piece_by_piece_is_one_answer() {
        assert_eq!(told(0, Differences::All), api::Diff { items: Vec::new(), truncated: false });
        let three = told(3, Differences::More);
        assert_eq!(
            three.items.iter().map(|item| item.path.as_str()).collect::<Vec<_>>(),
            ["/0\u{1}", "/1\u{1}", "/2\u{1}"]
        );
        assert!(three.truncated);
    }
}

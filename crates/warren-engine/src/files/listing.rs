use warren_wire::guest::{FileCall, FileEntry, FileOperation, GrepMatch, Reply, Request, WatchEvent};

use crate::EngineError;
use crate::guest::{Call, Guest, Piece, WORK};

/// Bytes of matching lines that one search may answer with.
const MATCHES_BYTES: usize = 32 << 20;

/// Entries that arrive in parts, however many there are.
#[derive(Debug)]
pub struct Listing {
    call: Call,
    /// The first part, which was waited for so that a refusal is known at once. `None` if there were no entries at all.
    first: Option<Vec<FileEntry>>,
    over: bool,
}

/// Changes below a directory, as they happen. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watch {
    call: Call,
}

impl Listing {
    /// The next part; `None` after the last. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<Vec<FileEntry>>, EngineError> {
        if let Some(entries) = self.first.take() {
            return Ok(Some(entries));
        }
        if self.over {
            return Ok(None);
        }
        let part = part(&mut self.call).await;
        self.over = !matches!(part, Ok(Some(_)));
        part
    }
}

impl Watch {
    /// The next changes; `None` never, since a watch has no end of its own. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<Vec<WatchEvent>>, EngineError> {
        match self.call.next_at_leisure().await? {
            Piece::Reply(Reply::Changed(events)) => Ok(Some(events)),
            _ => Err(self.call.guest.unexpected("something other than changes")),
        }
    }
}

impl Guest {
    pub(crate) async fn entries(&self, call: FileCall) -> Result<Listing, EngineError> {
        let mut call = self.open(&Request::File(call)).await?;
        let first = part(&mut call).await?;
        Ok(Listing { call, over: first.is_none(), first })
    }

    pub(crate) async fn grep(&self, call: FileCall) -> Result<Vec<GrepMatch>, EngineError> {
        let FileOperation::Grep(query) = &call.operation else {
            return Err(EngineError::invalid("operation", "only a search for lines has matches"));
        };
        let most = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let mut call = self.open(&Request::File(call)).await?;
        let (mut matches, mut bytes) = (Vec::new(), 0_usize);
        loop {
            match call.next(WORK).await? {
                Piece::Reply(Reply::Matches(more)) => {
                    bytes = more.iter().fold(bytes, |sum, each| {
                        sum.saturating_add(each.text.as_bytes().len() + each.path.as_bytes().len())
                    });
                    if matches.len() + more.len() > most || bytes > MATCHES_BYTES {
                        return Err(self.unexpected("more matches than were asked for"));
                    }
                    matches.extend(more);
                }
                Piece::End => return Ok(matches),
                Piece::Reply(_) | Piece::Data(_) => {
                    return Err(self.unexpected("something other than matches"));
                }
            }
        }
    }

    pub(crate) async fn watch(&self, call: FileCall) -> Result<Watch, EngineError> {
        match self.begin(&Request::File(call), WORK).await? {
            (Reply::Done, call) => Ok(Watch { call }),
            _ => Err(self.unexpected("something other than that the watch began")),
        }
    }
}

async fn part(call: &mut Call) -> Result<Option<Vec<FileEntry>>, EngineError> {
    match call.next(WORK).await? {
        Piece::Reply(Reply::Entries(entries)) => Ok(Some(entries)),
        Piece::End => Ok(None),
        Piece::Reply(_) | Piece::Data(_) => Err(call.guest.unexpected("something other than entries")),
    }
}

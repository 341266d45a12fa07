use warren_wire::guest::{FileCall, FileEntry, FileOperation, GrepMatch, Reply, Request, WatchEvent};

use crate::EngineError;
use crate::bounds::Place;
use crate::error::Field;
use crate::guest::{ANSWER, Call, Guest, Piece, WORK, within};

/// Bytes of matching lines that one search answers with.
const MATCHES_BYTES: usize = 4 << 20;

/// Entries that arrive in parts, however many there are.
#[derive(Debug)]
pub struct Listing {
    call: Call,
    /// The first part, which was waited for so that a refusal is known at once. `None` if there
    /// were no entries at all.
    first: Option<Vec<FileEntry>>,
    over: bool,
    pub(super) place: Option<Place>,
}

/// The result of a search.
#[derive(Debug)]
pub struct Matches {
    pub items: Vec<GrepMatch>,
    /// There is more than an answer may have.
    pub more: bool,
    /// To be kept until the answer has been sent.
    pub place: Option<Place>,
}

/// Changes that one flush may answer with; far more than the sandbox's kernel holds back for a
/// watch.
const FLUSHED_EVENTS: usize = 1 << 17;

/// Bytes of their paths.
const FLUSHED_BYTES: usize = 32 << 20;

/// Changes below a directory, as they happen. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watch {
    call: Call,
    /// Answers due to flushes, some of which may have been given up.
    owed: u64,
    /// Events that flushes have taken and not answered.
    held: Vec<WatchEvent>,
    held_bytes: usize,
}

impl Listing {
    /// The place that was held, for who needs it until the answer has been sent.
    pub fn leave(self) -> Option<Place> {
        self.place
    }

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
        if !self.held.is_empty() {
            return Ok(Some(self.take_held()));
        }
        loop {
            let piece = self.call.next_at_leisure().await?;
            if let Some(events) = self.told(piece)? {
                return Ok(Some(events));
            }
        }
    }

    /// Everything that has happened until now and was not told yet. Cancel safe: what a flush that
    /// was given up has taken is told by whatever is asked next.
    pub async fn flush(&mut self) -> Result<Vec<WatchEvent>, EngineError> {
        self.owed += 1;
        let asked = within(ANSWER, async { Ok(self.call.sender.nudge().await) }).await?;
        if let Err(error) = asked {
            return Err(self.call.guest.explain(error).await);
        }
        while self.owed > 0 {
            let piece = self.call.next(ANSWER).await?;
            let Some(events) = self.told(piece)? else { continue };
            self.held_bytes += events.iter().map(|event| event.path.as_bytes().len()).sum::<usize>();
            self.held.extend(events);
            if self.held.len() > FLUSHED_EVENTS || self.held_bytes > FLUSHED_BYTES {
                return Err(self.call.guest.unexpected("more changes than a watch holds back"));
            }
        }
        Ok(self.take_held())
    }

    /// Changes that arrived; `None` for the answer to a flush.
    fn told(&mut self, piece: Piece) -> Result<Option<Vec<WatchEvent>>, EngineError> {
        match piece {
            Piece::Reply(Reply::Changed(events)) => Ok(Some(events)),
            Piece::Reply(Reply::Done) if self.owed > 0 => {
                self.owed -= 1;
                Ok(None)
            }
            _ => Err(self.call.guest.unexpected("something other than changes")),
        }
    }

    fn take_held(&mut self) -> Vec<WatchEvent> {
        self.held_bytes = 0;
        std::mem::take(&mut self.held)
    }
}

impl Guest {
    pub(crate) async fn entries(&self, call: FileCall) -> Result<Listing, EngineError> {
        let mut call = self.open(&Request::File(call)).await?;
        let first = part(&mut call).await?;
        Ok(Listing { call, over: first.is_none(), first, place: None })
    }

    pub(crate) async fn grep(&self, call: FileCall) -> Result<Matches, EngineError> {
        let FileOperation::Grep(query) = &call.operation else {
            return Err(EngineError::invalid(Field::Operation, "only a search for lines has matches"));
        };
        let most = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let mut call = self.open(&Request::File(call)).await?;
        let (mut matches, mut bytes) = (Vec::new(), 0_usize);
        loop {
            match call.next(WORK).await? {
                Piece::Reply(Reply::Matches(more)) => {
                    if matches.len() + more.len() > most {
                        return Err(self.unexpected("more matches than were asked for"));
                    }
                    for each in more {
                        bytes += each.text.as_bytes().len() + each.path.as_bytes().len();
                        if bytes > MATCHES_BYTES {
                            return Ok(Matches { items: matches, more: true, place: None });
                        }
                        matches.push(each);
                    }
                }
                Piece::End => return Ok(Matches { items: matches, more: false, place: None }),
                Piece::Reply(_) | Piece::Data(_) => {
                    return Err(self.unexpected("something other than matches"));
                }
            }
        }
    }

    pub(crate) async fn watch(&self, call: FileCall) -> Result<Watch, EngineError> {
        match self.begin(&Request::File(call), WORK).await? {
            (Reply::Done, call) => Ok(Watch { call, owed: 0, held: Vec::new(), held_bytes: 0 }),
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

use std::collections::VecDeque;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{Stream, stream};
use tokio_util::task::AbortOnDropHandle;
use warren_engine::{ProcessEvent, ProcessReader};
use warren_face::error::ApiError;
use warren_face::sse::Message;
use warren_face::text::TextDecoder;
use warren_wire::api::{Encoding, OutputPiece, StreamMissed, StreamNotice};
use warren_wire::guest::Started;

use crate::convert;

/// A process as messages: that it started, what it writes, and how it ended.
#[derive(Debug)]
pub(crate) struct ProcessMessages {
    reader: ProcessReader,
    translator: Translator,
    ready: VecDeque<Message>,
    /// Writes what the process finds on its input, for as long as somebody follows.
    _feed: Option<AbortOnDropHandle<()>>,
}

impl ProcessMessages {
    pub(crate) fn new(started: Started, reader: ProcessReader, encoding: Encoding) -> Self {
        let ready = VecDeque::from([notice(&convert::started(&started)).id(started.position)]);
        Self { reader, translator: Translator::new(encoding), ready, _feed: None }
    }

    pub(crate) fn fed_by(mut self, feed: AbortOnDropHandle<()>) -> Self {
        self._feed = Some(feed);
        self
    }

    pub(crate) fn into_stream(self) -> impl Stream<Item = Message> + Send + 'static {
        stream::unfold(self, |mut this| async { this.next().await.map(|message| (message, this)) })
    }

    async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            match self.reader.next().await {
                Ok(event) => self.ready.extend(self.translator.translate(event?)),
                Err(error) => return Some(Message::error(ApiError::from(error))),
            }
        }
    }
}

/// Makes messages of events.
#[derive(Debug)]
struct Translator {
    encoding: Encoding,
    stdout: Half,
    stderr: Half,
}

/// The state of one of the two streams.
#[derive(Debug)]
struct Half {
    name: &'static str,
    decoder: TextDecoder,
    /// Where the bytes stand that the decoder holds.
    held_at: u64,
}

impl Translator {
    fn new(encoding: Encoding) -> Self {
        let half = |name| Half { name, decoder: TextDecoder::default(), held_at: 0 };
        Self { encoding, stdout: half("stdout"), stderr: half("stderr") }
    }

    fn translate(&mut self, event: ProcessEvent) -> Vec<Message> {
        match event {
            ProcessEvent::Stdout { position, bytes } => {
                let piece = self.stdout.piece(self.encoding, position, &bytes);
                self.numbered(piece, position.saturating_add(bytes.len() as u64))
            }
            ProcessEvent::Stderr { position, bytes } => {
                let piece = self.stderr.piece(self.encoding, position, &bytes);
                self.numbered(piece, position.saturating_add(bytes.len() as u64))
            }
            ProcessEvent::Missed { bytes, position } => {
                let mut messages = self.leftovers();
                messages.push(notice(&StreamNotice::Missed(StreamMissed { bytes, position })).id(position));
                messages
            }
            ProcessEvent::Exited(exit) => {
                let mut messages = self.leftovers();
                messages.push(notice(&convert::exited(&exit)));
                messages
            }
        }
    }

    /// A message has a number only if nothing before it is still held: a reader that comes back
    /// with the number misses nothing.
    fn numbered(&self, piece: Option<Message>, cursor: u64) -> Vec<Message> {
        let held = self.stdout.decoder.held() + self.stderr.decoder.held();
        let own = |message: Message| if held == 0 { message.id(cursor) } else { message };
        piece.map(own).into_iter().collect()
    }

    fn leftovers(&mut self) -> Vec<Message> {
        [&mut self.stdout, &mut self.stderr].into_iter().filter_map(Half::leftover).collect()
    }
}

impl Half {
    /// `None` if all of it waits for more.
    fn piece(&mut self, encoding: Encoding, position: u64, bytes: &[u8]) -> Option<Message> {
        if encoding == Encoding::Base64 {
            return Some(output(self.name, position, STANDARD.encode(bytes)));
        }
        let first = if self.decoder.held() > 0 { self.held_at } else { position };
        let data = self.decoder.push(bytes);
        // More than just came: the beginning is of before, and so is its place.
        if let Some(passed) = bytes.len().checked_sub(self.decoder.held()) {
            self.held_at = position.saturating_add(passed as u64);
        }
        (!data.is_empty()).then(|| output(self.name, first, data))
    }

    fn leftover(&mut self) -> Option<Message> {
        let data = self.decoder.finish();
        (!data.is_empty()).then(|| output(self.name, self.held_at, data))
    }
}

fn output(name: &'static str, position: u64, data: String) -> Message {
    Message::new(name, &OutputPiece { position, data })
}

/// The notice's type is the event's name, and the rest its data.
fn notice(notice: &StreamNotice) -> Message {
    let mut value = serde_json::to_value(notice).unwrap_or_default();
    let name = value.as_object_mut().and_then(|fields| fields.remove("type"));
    let name = name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
    Message::new(name, &value)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use warren_wire::guest::{Exit, ExitCause};

    use super::*;

    fn stdout(position: u64, bytes: &'static [u8]) -> ProcessEvent {
        ProcessEvent::Stdout { position, bytes: Bytes::from_static(bytes) }
    }

    fn stderr(position: u64, bytes: &'static [u8]) -> ProcessEvent {
        ProcessEvent::Stderr { position, bytes: Bytes::from_static(bytes) }
    }

    fn told(encoding: Encoding, events: Vec<ProcessEvent>) -> Vec<(String, Option<u64>, String)> {
        let mut translator = Translator::new(encoding);
        let messages = events.into_iter().flat_map(|event| translator.translate(event));
        messages.map(|message| (message.name, message.id, message.data)).collect()
    }

    #[test]
    fn a_character_is_never_split_between_messages() {
        let messages =
            told(Encoding::Utf8, vec![stdout(0, b"a\xe2"), stdout(2, b"\x82"), stdout(3, b"\xacb")]);
        assert_eq!(
            messages,
            [
                ("stdout".to_owned(), None, r#"{"position":0,"data":"a"}"#.to_owned()),
                ("stdout".to_owned(), Some(5), r#"{"position":1,"data":"€b"}"#.to_owned()),
            ]
        );
    }

    #[test]
    fn no_number_passes_over_what_is_held() {
        let messages = told(Encoding::Utf8, vec![stdout(0, b"\xc3"), stderr(1, b"x"), stdout(2, b"\xa4")]);
        let ids: Vec<Option<u64>> = messages.iter().map(|(_, id, _)| *id).collect();
        assert_eq!(ids, [None, Some(3)]);
        assert_eq!(messages[1].2, r#"{"position":0,"data":"ä"}"#);
    }

    #[test]
    fn what_is_left_is_told_before_the_end() {
        let exit =
            Exit { code: 137, cause: ExitCause::Signalled { signal: 9 }, duration_ms: 4, output_bytes: 1 };
        let messages = told(Encoding::Utf8, vec![stdout(0, b"\xc3"), ProcessEvent::Exited(exit)]);
        assert_eq!(messages[0].2, "{\"position\":0,\"data\":\"\u{fffd}\"}");
        assert_eq!(messages[1].0, "exited");
        assert_eq!(messages[1].2, r#"{"cause":"signalled","duration_ms":4,"exit_code":137,"signal":9}"#);
    }

    #[test]
    fn base64_holds_nothing_back() {
        let messages = told(Encoding::Base64, vec![stdout(0, b"\xc3"), stderr(1, b"\xa4")]);
        assert_eq!(messages[0].2, r#"{"position":0,"data":"ww=="}"#);
        assert_eq!((messages[0].1, messages[1].1), (Some(1), Some(2)));
    }
}

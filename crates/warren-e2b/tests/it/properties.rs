use std::fmt::Debug;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use warren_e2b::filesystem::{EntryInfo, WatchDirResponse};
use warren_e2b::process::{
    SendInputRequest, SendSignalRequest, StartRequest, StartResponse, StreamInputRequest, UpdateRequest,
};
use warren_e2b::rpc::{Codec, EnvelopeError, Envelopes, Message, write_end, write_envelope};

use crate::arbitrary;

const CODECS: [Codec; 2] = [Codec::Json, Codec::Binary];

/// Checks that a message is the same once it has been written and read, in both encodings.
fn survives<M: Message + PartialEq + Debug>(message: &M) -> Result<(), TestCaseError> {
    for codec in CODECS {
        let mut bytes = BytesMut::new();
        codec.encode(message, &mut bytes);
        let read = codec.decode::<M>(bytes.freeze());
        prop_assert_eq!(&read.unwrap(), message, "{:?}", codec);
    }
    Ok(())
}

macro_rules! survive {
    ($($name:ident: $kind:ident),+ $(,)?) => {
        proptest! {
            $(#[test]
            fn $name(message in arbitrary::$kind()) {
                survives(&message)?;
            })+
        }
    };
}

survive! {
    starts_survive: start_request,
    updates_survive: update_request,
    inputs_survive: send_input_request,
    signals_survive: send_signal_request,
    streamed_inputs_survive: stream_input_request,
    process_lists_survive: list_response,
    process_events_survive: start_response,
    directory_questions_survive: list_dir_request,
    directories_survive: list_dir_response,
    moves_survive: move_request,
    watches_survive: watch_dir_request,
    watchers_survive: create_watcher_request,
    watcher_events_survive: watcher_events_response,
    watch_events_survive: watch_dir_response,
}

/// Reads bytes as messages of several kinds. None of it may be fatal.
fn read_as_anything(codec: Codec, bytes: &Bytes) {
    let _ = (
        codec.decode::<StartRequest>(bytes.clone()).is_ok(),
        codec.decode::<UpdateRequest>(bytes.clone()).is_ok(),
        codec.decode::<SendInputRequest>(bytes.clone()).is_ok(),
        codec.decode::<SendSignalRequest>(bytes.clone()).is_ok(),
        codec.decode::<StreamInputRequest>(bytes.clone()).is_ok(),
        codec.decode::<StartResponse>(bytes.clone()).is_ok(),
        codec.decode::<EntryInfo>(bytes.clone()).is_ok(),
        codec.decode::<WatchDirResponse>(bytes.clone()).is_ok(),
    );
}

/// Nearly JSON of nearly the right shape.
fn nearly_json() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("process"),
        Just("pty"),
        Just("event"),
        Just("start"),
        Just("data"),
        Just("input"),
        Just("stdin"),
        Just("pid"),
        Just("size"),
        Just("signal"),
        Just("modifiedTime"),
        Just("unknown"),
    ];
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| number.to_string()),
        "\"[-A-Za-z0-9+/=_:]{0,12}\"",
        Just("[]".to_owned()),
    ];
    leaf.prop_recursive(6, 40, 4, move |inner| {
        proptest::collection::vec((word.clone(), inner), 0..4).prop_map(|members| {
            let members: Vec<String> =
                members.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
            format!("{{{}}}", members.join(","))
        })
    })
}

proptest! {
    #[test]
    fn noise_is_not_fatal(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for codec in CODECS {
            read_as_anything(codec, &Bytes::from(bytes.clone()));
        }
    }

    #[test]
    fn nearly_right_json_is_not_fatal(text in nearly_json()) {
        read_as_anything(Codec::Json, &Bytes::from(text));
    }

    #[test]
    fn a_damaged_message_is_not_fatal(
        message in arbitrary::start_response(),
        at in any::<prop::sample::Index>(),
        with in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        for codec in CODECS {
            let mut bytes = BytesMut::new();
            codec.encode(&message, &mut bytes);
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = with;
                let cut = cut.index(bytes.len());
                read_as_anything(codec, &bytes.clone().freeze());
                read_as_anything(codec, &bytes.freeze().slice(..cut));
            }
        }
    }

    #[test]
    fn a_stream_reads_the_same_however_it_is_torn(
        messages in proptest::collection::vec(arbitrary::start_response(), 0..6),
        piece in 1_usize..40,
    ) {
        for codec in CODECS {
            let mut bytes = BytesMut::new();
            messages.iter().for_each(|message| write_envelope(codec, message, &mut bytes));
            write_end(None, &mut bytes);
            let (mut envelopes, mut read, mut ends) = (Envelopes::new(1 << 20), Vec::new(), 0);
            for piece in bytes.chunks(piece) {
                envelopes.push(piece);
                while let Some(envelope) = envelopes.next_envelope().unwrap() {
                    if envelope.end {
                        ends += 1;
                    } else {
                        read.push(codec.decode::<StartResponse>(envelope.payload).unwrap());
                    }
                }
            }
            prop_assert_eq!(envelopes.finish(), Ok(()));
            prop_assert_eq!((&read, ends), (&messages, 1));
        }
    }

    #[test]
    fn noise_makes_no_large_envelopes(noise in proptest::collection::vec(any::<u8>(), 0..400), piece in 1_usize..40) {
        const MOST: usize = 64;
        let mut envelopes = Envelopes::new(MOST);
        'stream: for piece in noise.chunks(piece) {
            envelopes.push(piece);
            loop {
                match envelopes.next_envelope() {
                    Ok(Some(envelope)) => prop_assert!(envelope.payload.len() <= MOST),
                    Ok(None) => break,
                    Err(error) => {
                        prop_assert_ne!(error, EnvelopeError::Truncated);
                        break 'stream;
                    }
                }
            }
        }
    }
}

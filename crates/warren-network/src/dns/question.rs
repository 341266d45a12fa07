use hickory_proto::op::{Edns, Header, Message, MessageType, Metadata, OpCode, Query, ResponseCode};
use hickory_proto::rr::Name;
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder, DecodeError};
use warren_core::HostName;

/// The most bytes that we take in one packet, and announce: packets of this size pass every path
/// unbroken.
pub(super) const PAYLOAD: u16 = 1232;
/// The most bytes in one packet for a client that does not say how much it takes.
const LEAST_PAYLOAD: u16 = 512;
const HEADER_BYTES: usize = 12;
/// One for EDNS, one for a signature, which is not looked at.
const MOST_ADDITIONALS: u16 = 2;

/// How a question came, and its answer goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    Packet,
    Stream,
}

/// One question of a sandbox. Nothing else of what it sent is ever passed on.
#[derive(Debug)]
pub(super) struct Question {
    request: Metadata,
    /// As the client wrote it, since it compares.
    pub(super) query: Query,
    extended: Option<Extended>,
}

/// The client's EDNS record. Its options are passed on to nobody.
#[derive(Debug, Clone, Copy)]
struct Extended {
    payload: u16,
    dnssec_ok: bool,
}

/// Flags that a client sets besides the question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Wants {
    /// Signatures, to check them itself.
    pub(super) signatures: bool,
    /// Also what the server could not verify.
    pub(super) unchecked: bool,
    /// To be told whether the server could.
    pub(super) verdict: bool,
}

/// Bytes that hold no question.
#[derive(Debug)]
pub(super) enum Malformed {
    /// The sender expects no answer.
    Unanswerable,
    Answered(Box<Message>),
}

impl Question {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let header = Header::read(&mut BinDecoder::new(bytes)).map_err(|_| Malformed::Unanswerable)?;
        if header.message_type == MessageType::Response || bytes.len() < HEADER_BYTES {
            return Err(Malformed::Unanswerable);
        }
        let refuse =
            |code| Malformed::Answered(Box::new(Message::error_msg(header.id, header.op_code, code)));
        if header.op_code != OpCode::Query {
            return Err(refuse(ResponseCode::NotImp));
        }
        let counts = header.counts;
        // Looked at before anything is allocated for that many.
        if (counts.queries, counts.answers, counts.authorities) != (1, 0, 0)
            || counts.additionals > MOST_ADDITIONALS
        {
            return Err(refuse(ResponseCode::FormErr));
        }
        let mut message = read_message(bytes).map_err(|_| refuse(ResponseCode::FormErr))?;
        let query = message.queries.pop().ok_or_else(|| refuse(ResponseCode::FormErr))?;
        let extended = message.edns.as_ref().map(Extended::of);
        let question = Self { request: header.metadata, query, extended };
        match message.edns {
            Some(edns) if edns.version() != 0 => {
                Err(Malformed::Answered(Box::new(question.reply(ResponseCode::BADVERS))))
            }
            _ => Ok(question),
        }
    }

    pub(super) fn wants(&self) -> Wants {
        Wants {
            signatures: self.extended.is_some_and(|extended| extended.dnssec_ok),
            unchecked: self.request.checking_disabled,
            verdict: self.request.authentic_data,
        }
    }

    /// An answer without records.
    pub(super) fn reply(&self, code: ResponseCode) -> Message {
        let mut reply = Message::response(self.request.id, OpCode::Query);
        reply.metadata = Metadata::response_from_request(&self.request);
        reply.metadata.recursion_available = true;
        reply.metadata.response_code = code;
        reply.add_query(self.query.clone());
        if let Some(extended) = self.extended {
            let mut edns = Edns::new();
            edns.set_max_payload(PAYLOAD).set_dnssec_ok(extended.dnssec_ok);
            reply.set_edns(edns);
        }
        reply
    }

    /// The bytes of an answer. One that the client cannot take in a packet says so, and the client
    /// asks again over a stream.
    pub(super) fn encode(&self, reply: &Message, carrier: Carrier) -> Option<Vec<u8>> {
        let most = match carrier {
            Carrier::Packet => self.extended.map_or(LEAST_PAYLOAD, |extended| extended.payload),
            Carrier::Stream => u16::MAX,
        };
        match reply.to_vec() {
            Ok(bytes) if bytes.len() <= usize::from(most) => Some(bytes),
            Ok(_) => reply.truncate().to_vec().ok(),
            Err(_) => self.reply(ResponseCode::ServFail).to_vec().ok(),
        }
    }
}

impl Extended {
    fn of(edns: &Edns) -> Self {
        Self { payload: edns.max_payload().clamp(LEAST_PAYLOAD, PAYLOAD), dnssec_ok: edns.flags().dnssec_ok }
    }
}

/// Reads a message without a word to the log: the library warns of what it finds odd, and strangers
/// could fill the log with it.
pub(super) fn read_message(bytes: &[u8]) -> Result<Message, DecodeError> {
    tracing::dispatcher::with_default(&tracing::Dispatch::none(), || Message::from_vec(bytes))
}

/// A name of the protocol as the host name it is, if it is one. A label of the protocol may hold
/// any byte, even a dot.
pub(super) fn host_name(name: &Name) -> Option<HostName> {
    let labels: Option<Vec<&str>> =
        name.iter().map(|label| std::str::from_utf8(label).ok().filter(|text| !text.contains('.'))).collect();
    labels?.join(".").parse().ok()
}

/// A host name as the protocol has it: in lower case, so that not even the choice of case leaves
/// the machine.
pub(super) fn wire_name(name: &HostName) -> Option<Name> {
    Name::from_labels(name.as_str().split('.').map(str::as_bytes)).ok()
}

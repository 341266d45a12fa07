/// Makes text of bytes that arrive in pieces. A character that is cut waits for its rest; what is
/// no text becomes U+FFFD.
#[derive(Debug, Default)]
pub struct TextDecoder {
    /// The beginning of a character, at most three bytes.
    held: Vec<u8>,
}

impl TextDecoder {
    pub fn push(&mut self, bytes: &[u8]) -> String {
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        self.held = all.split_off(all.len() - begun(&all));
        lossy(all)
    }

    /// Bytes that wait for their rest.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// The rest, when nothing more comes.
    pub fn finish(&mut self) -> String {
        lossy(std::mem::take(&mut self.held))
    }
}

/// How many bytes at the end are the beginning of a character.
fn begun(bytes: &[u8]) -> usize {
    let is_begun = |count: &usize| {
        let tail = &bytes[bytes.len() - count..];
        std::str::from_utf8(tail).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    };
    (1..=bytes.len().min(3)).find(is_begun).unwrap_or(0)
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_pieces(bytes: &[u8], size: usize) -> String {
        let mut decoder = TextDecoder::default();
        let mut text: String = bytes.chunks(size).map(|piece| decoder.push(piece)).collect();
        text.push_str(&decoder.finish());
        text
    }

    #[test]
    fn characters_survive_every_cut() {
        let text = "aä€😀z";
        for size in 1..=text.len() {
            assert_eq!(in_pieces(text.as_bytes(), size), text, "in pieces of {size}");
        }
    }

    #[test]
    fn what_is_no_text_is_the_same_in_pieces_and_whole() {
        for bytes in
            [&b"a\xff\xfeb"[..], b"\xe2\x82", b"\xe2(\xa1", b"\xf0\x9f\x98x", b"\x80\x80", b"\xed\xa0\x80"]
        {
            let whole = String::from_utf8_lossy(bytes).into_owned();
            for size in 1..=bytes.len() {
                assert_eq!(in_pieces(bytes, size), whole, "{bytes:x?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn only_the_beginning_of_a_character_is_held() {
        let mut decoder = TextDecoder::default();
        assert_eq!((decoder.push(b"x\xe2\x82").as_str(), decoder.held()), ("x", 2));
        assert_eq!((decoder.push(b"\xac").as_str(), decoder.held()), ("€", 0));
    }
}

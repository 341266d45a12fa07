/// Longer patterns match nothing: no path that is looked at is longer.
const MOST_PATTERN: usize = 4096;

/// One pattern, as `.gitignore` writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    tokens: Vec<Token>,
    /// All tokens are bytes.
    literal: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// `?`
    One,
    /// `*`
    Some,
    /// `**/`: directories, or none.
    Directories,
    /// `/**` at the end, without its slash: all that is inside.
    Inside,
    /// `[…]`
    Of {
        ranges: Vec<(u8, u8)>,
        negated: bool,
    },
}

impl Pattern {
    /// `None` for a pattern that can match nothing.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        if text.is_empty() || text.len() > MOST_PATTERN {
            return None;
        }
        let mut tokens = Vec::new();
        let mut at = 0;
        while let Some(byte) = text.get(at) {
            let rest = text.get(at..).unwrap_or_default();
            let begins = at == 0 || text.get(at - 1) == Some(&b'/');
            let taken = match byte {
                b'*' if begins && rest.starts_with(b"**/") => {
                    if tokens.last() != Some(&Token::Directories) {
                        tokens.push(Token::Directories);
                    }
                    3
                }
                b'*' if begins && at > 0 && rest == b"**" => {
                    tokens.push(Token::Inside);
                    2
                }
                b'*' => {
                    tokens.push(Token::Some);
                    rest.iter().take_while(|byte| **byte == b'*').count()
                }
                b'?' => {
                    tokens.push(Token::One);
                    1
                }
                b'[' => {
                    let (token, taken) = class(rest)?;
                    tokens.push(token);
                    taken
                }
                b'\\' => {
                    tokens.push(Token::Byte(*text.get(at + 1)?));
                    2
                }
                byte => {
                    tokens.push(Token::Byte(*byte));
                    1
                }
            };
            at += taken;
        }
        let literal = tokens.iter().all(|token| matches!(token, Token::Byte(_)));
        Some(Self { tokens, literal })
    }

    /// The most steps that comparing takes.
    pub(super) fn cost(&self, text: &[u8]) -> usize {
        if self.literal { 1 + self.tokens.len() / 8 } else { (self.tokens.len() + 1) * (text.len() + 1) }
    }

    pub(super) fn matches(&self, text: &[u8]) -> bool {
        if self.literal {
            let same = |(token, byte): (&Token, &u8)| *token == Token::Byte(*byte);
            return self.tokens.len() == text.len() && self.tokens.iter().zip(text).all(same);
        }
        // All places of the pattern at which the text so far can have arrived.
        let mut here = vec![false; self.tokens.len() + 1];
        let mut next = here.clone();
        self.arrive(&mut here, 0);
        for byte in text {
            next.fill(false);
            for (place, token) in self.tokens.iter().enumerate().filter(|(place, _)| here[*place]) {
                self.step(&mut next, place, token, *byte);
            }
            std::mem::swap(&mut here, &mut next);
        }
        here.last().copied().unwrap_or(false)
    }

    fn step(&self, next: &mut [bool], place: usize, token: &Token, byte: u8) {
        match token {
            Token::Byte(wanted) if *wanted == byte => self.arrive(next, place + 1),
            Token::One if byte != b'/' => self.arrive(next, place + 1),
            Token::Some if byte != b'/' => self.arrive(next, place),
            Token::Of { ranges, negated } if byte != b'/' => {
                let inside = ranges.iter().any(|(first, last)| (*first..=*last).contains(&byte));
                if inside != *negated {
                    self.arrive(next, place + 1);
                }
            }
            Token::Directories => {
                if let Some(here) = next.get_mut(place) {
                    *here = true;
                }
                if byte == b'/' {
                    self.arrive(next, place + 1);
                }
            }
            Token::Inside => {
                if let Some(here) = next.get_mut(place) {
                    *here = true;
                }
                self.arrive(next, place + 1);
            }
            _ => {}
        }
    }

    /// Marks a place, and those behind it that need no byte.
    fn arrive(&self, places: &mut [bool], mut place: usize) {
        loop {
            match places.get_mut(place) {
                Some(marked) => *marked = true,
                None => return,
            }
            match self.tokens.get(place) {
                Some(Token::Some | Token::Directories) => place += 1,
                _ => return,
            }
        }
    }
}

/// Reads `[…]`, and says how long it is.
fn class(text: &[u8]) -> Option<(Token, usize)> {
    let mut at = 1;
    let negated = matches!(text.get(at), Some(b'!' | b'^'));
    at += usize::from(negated);
    let (first, mut ranges) = (at, Vec::new());
    loop {
        let byte = *text.get(at)?;
        if byte == b']' && at > first {
            return Some((Token::Of { ranges, negated }, at + 1));
        }
        if let Some((named, taken)) = named(text.get(at..).unwrap_or_default()) {
            ranges.extend(named);
            at += taken;
            continue;
        }
        let (low, after) = plain(text, at)?;
        at = after;
        if text.get(at) == Some(&b'-') && text.get(at + 1).is_some_and(|byte| *byte != b']') {
            let (high, after) = plain(text, at + 1)?;
            ranges.push((low, high));
            at = after;
        } else {
            ranges.push((low, low));
        }
    }
}

/// A byte of a class, which a backslash may stand before.
fn plain(text: &[u8], at: usize) -> Option<(u8, usize)> {
    match text.get(at)? {
        b'\\' => Some((*text.get(at + 1)?, at + 2)),
        byte => Some((*byte, at + 1)),
    }
}

/// The first and last byte of each.
type Ranges = &'static [(u8, u8)];

/// `[:digit:]` and its kind, inside a class.
fn named(text: &[u8]) -> Option<(Ranges, usize)> {
    let kinds: [(&[u8], Ranges); 7] = [
        (b"[:alnum:]", &[(b'0', b'9'), (b'A', b'Z'), (b'a', b'z')]),
        (b"[:alpha:]", &[(b'A', b'Z'), (b'a', b'z')]),
        (b"[:digit:]", &[(b'0', b'9')]),
        (b"[:lower:]", &[(b'a', b'z')]),
        (b"[:space:]", &[(b'\t', b'\r'), (b' ', b' ')]),
        (b"[:upper:]", &[(b'A', b'Z')]),
        (b"[:xdigit:]", &[(b'0', b'9'), (b'A', b'F'), (b'a', b'f')]),
    ];
    kinds.into_iter().find(|(name, _)| text.starts_with(name)).map(|(name, ranges)| (ranges, name.len()))
}

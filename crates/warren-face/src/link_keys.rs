use std::fmt;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use warren_core::Random;

/// The keys that sign links and tokens of ports. The first key signs; all of them are believed, so
/// that a signature of an older key is good until that key is removed.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct LinkKeys {
    first: Key,
    older: Vec<Key>,
}

/// How they are written down.
#[derive(Serialize, Deserialize)]
struct Written {
    keys: Vec<WrittenKey>,
}

#[derive(Serialize, Deserialize)]
struct WrittenKey {
    id: String,
    /// 64 hexadecimal digits.
    secret: String,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    id: String,
    secret: [u8; 32],
}

/// A signature, whole: 256 bits.
pub type Tag = [u8; 32];

const ID_DIGITS: usize = 8;

impl LinkKeys {
    /// One new key.
    pub fn random(random: &dyn Random) -> Self {
        let mut secret = [0; 32];
        let (half, rest) = secret.split_at_mut(16);
        half.copy_from_slice(&random.bits());
        rest.copy_from_slice(&random.bits());
        let id = HEXLOWER.encode(&random.bits())[..ID_DIGITS].to_owned();
        Self { first: Key { id, secret }, older: Vec::new() }
    }

    /// The key that signs.
    pub fn first(&self) -> &Key {
        &self.first
    }

    /// A token for a purpose, which only a server with these keys can make.
    pub fn token(&self, purpose: &[&str]) -> String {
        HEXLOWER.encode(&self.first.sign(purpose))
    }

    /// Every token that is believed for such a purpose, the one of today first.
    pub fn tokens(&self, purpose: &[&str]) -> Vec<String> {
        self.all().map(|key| HEXLOWER.encode(&key.sign(purpose))).collect()
    }

    /// True if the text is the token for a purpose.
    pub fn is_token(&self, purpose: &[&str], text: &str) -> bool {
        unhex(text).is_some_and(|tag| self.all().any(|key| key.verify(purpose, &tag)))
    }

    pub fn find(&self, id: &str) -> Option<&Key> {
        self.all().find(|key| key.id == id)
    }

    pub fn all(&self) -> impl Iterator<Item = &Key> {
        std::iter::once(&self.first).chain(&self.older)
    }
}

impl Key {
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Signs these parts. Each is counted, so that no two lists of parts are the same text.
    pub fn sign(&self, parts: &[&str]) -> Tag {
        let mut mac = <Hmac<Sha256>>::new_from_slice(&self.secret).expect("a key of any length will do");
        for part in parts {
            mac.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            mac.update(part.as_bytes());
        }
        mac.finalize().into_bytes().into()
    }

    /// Takes as long for a wrong one as for a right one.
    pub fn verify(&self, parts: &[&str], tag: &[u8]) -> bool {
        self.sign(parts).ct_eq(tag).into()
    }
}

impl TryFrom<Written> for LinkKeys {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let mut keys = Vec::new();
        for WrittenKey { id, secret } in written.keys {
            let usable = (1..=32).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
            if !usable || keys.iter().any(|key: &Key| key.id == id) {
                return Err("a key's id has 1 to 32 letters and digits, and each key one of its own");
            }
            let secret = unhex(&secret).ok_or("a key's secret has 64 hexadecimal digits")?;
            keys.push(Key { id, secret });
        }
        let mut keys = keys.into_iter();
        let first = keys.next().ok_or("there is no key")?;
        Ok(Self { first, older: keys.collect() })
    }
}

impl From<LinkKeys> for Written {
    fn from(keys: LinkKeys) -> Self {
        let write = |key: &Key| WrittenKey { id: key.id.clone(), secret: HEXLOWER.encode(&key.secret) };
        Self { keys: keys.all().map(write).collect() }
    }
}

impl fmt::Debug for LinkKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all().map(Key::id)).finish()
    }
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok()
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use warren_testkit::FakeRandom;

    use super::*;

    #[test]
    fn keys_are_read_as_they_were_written() {
        let keys = LinkKeys::random(&FakeRandom::new(1));
        let text = serde_json::to_string(&keys).unwrap();
        let read: LinkKeys = serde_json::from_str(&text).unwrap();
        assert_eq!(read.first().sign(&["a"]), keys.first().sign(&["a"]));
        for wrong in [
            r#"{"keys":[]}"#,
            r#"{"keys":[{"id":"a.b","secret":"00"}]}"#,
            r#"{"keys":[{"id":"a","secret":"0"}]}"#,
        ] {
            assert!(serde_json::from_str::<LinkKeys>(wrong).is_err(), "{wrong}");
        }
        let secret = "0".repeat(64);
        let twice =
            format!(r#"{{"keys":[{{"id":"a","secret":"{secret}"}},{{"id":"a","secret":"{secret}"}}]}}"#);
        assert!(serde_json::from_str::<LinkKeys>(&twice).is_err());
        assert!(!format!("{keys:?}").contains(&HEXLOWER.encode(&keys.first.secret)));
    }

    #[test]
    fn parts_cannot_be_shifted_into_one_another() {
        let keys = LinkKeys::random(&FakeRandom::new(1));
        let key = keys.first();
        assert_ne!(key.sign(&["ab", "c"]), key.sign(&["a", "bc"]));
        assert_ne!(key.sign(&["a"]), key.sign(&["a", ""]));
        assert!(key.verify(&["a"], &key.sign(&["a"])) && !key.verify(&["a"], &key.sign(&["a"])[..16]));
    }
}

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use parking_lot::RwLock;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tokio_util::sync::CancellationToken;
use warren_core::catalog::{Catalog, CatalogError};
use warren_core::{Clock, KeyId, KeyRecord, Owner, Random, Scope};

use super::{Caller, StreamGuard};
use crate::error::{ApiError, Code};

/// Keys that may be valid at once. All of them are in memory.
const MOST_KEYS: usize = 10_000;

const DIGITS: usize = 40;
const PREFIXES: [&str; 2] = ["wrn_", "e2b_"];
const HINT: usize = 6;

type Hash = [u8; 32];

/// A key itself. It is shown once, and never written anywhere by the server: `Debug` has none of
/// it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// The text has not the shape of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAKey;

/// The wishes for a new key.
#[derive(Debug, Clone)]
pub struct NewKey {
    pub owner: Owner,
    pub name: String,
    pub scope: Scope,
}

/// Every valid key, by its hash.
pub struct Keyring {
    known: RwLock<HashMap<Hash, Known>>,
    shutdown: CancellationToken,
}

struct Known {
    record: KeyRecord,
    /// Cancelled when the key is revoked.
    revoked: CancellationToken,
}

/// Why keys could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    #[error("there are {MOST_KEYS} keys, and no more may be: revoke some")]
    TooMany,
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

impl Keyring {
    /// Reads all keys. Nobody else changes them while this process has the catalog open.
    pub fn load(catalog: &dyn Catalog, shutdown: CancellationToken) -> Result<Self, CatalogError> {
        let valid = catalog.keys(None)?.into_iter().filter(|record| record.revoked_unix_ms.is_none());
        let known = valid
            .filter_map(|record| Some((parse_hash(&record.hash)?, Known::new(record))))
            .collect::<HashMap<_, _>>();
        Ok(Self { known: RwLock::new(known), shutdown })
    }

    pub fn is_empty(&self) -> bool {
        self.known.read().is_empty()
    }

    /// How many owners have a key.
    pub fn owners(&self) -> usize {
        let known = self.known.read();
        known.values().map(|known| &known.record.owner).collect::<HashSet<_>>().len()
    }

    /// The caller that a key belongs to, if the key is valid.
    pub fn find(&self, secret: &Secret) -> Option<Caller> {
        let hash = secret.hash();
        let known = self.known.read();
        let (stored, found) = known.get_key_value(&hash)?;
        // The map compares hashes as fast as it can; what decides does not depend on how far they
        // agree.
        bool::from(stored.ct_eq(&hash)).then(|| found.caller(&self.shutdown))
    }

    /// The caller of a server that asks for no keys.
    pub(crate) fn anybody(&self) -> Caller {
        Caller {
            who: warren_core::Caller::new(Owner::first(), "local"),
            guard: StreamGuard::new(CancellationToken::new(), self.shutdown.clone()),
        }
    }

    /// Makes a key, and answers it with its record. Blocks.
    pub fn create(
        &self,
        catalog: &dyn Catalog,
        (clock, random): (&dyn Clock, &dyn Random),
        new: NewKey,
    ) -> Result<(Secret, KeyRecord), KeyringError> {
        if self.known.read().len() >= MOST_KEYS {
            return Err(KeyringError::TooMany);
        }
        let secret = Secret::random(random);
        let record = KeyRecord {
            id: KeyId::from_random(random.bits()),
            owner: new.owner,
            name: new.name,
            scope: new.scope,
            hash: HEXLOWER.encode(&secret.hash()),
            hint: secret.0[..HINT].to_owned(),
            created_unix_ms: clock.unix_ms(),
            revoked_unix_ms: None,
        };
        catalog.insert_key(&record)?;
        let known = Known::new(record.clone());
        self.known.write().insert(secret.hash(), known);
        Ok((secret, record))
    }

    /// Ends a key. When this returns nobody comes in with it, and what its callers have open is
    /// ending. Blocks.
    pub fn revoke(
        &self,
        catalog: &dyn Catalog,
        clock: &dyn Clock,
        id: &KeyId,
    ) -> Result<KeyRecord, CatalogError> {
        let record = catalog.revoke_key(id, clock.unix_ms())?;
        let hash = parse_hash(&record.hash);
        let mut known = self.known.write();
        if let Some(ended) = hash.and_then(|hash| known.remove(&hash)) {
            ended.revoked.cancel();
        }
        Ok(record)
    }
}

impl From<KeyringError> for ApiError {
    fn from(error: KeyringError) -> Self {
        match error {
            KeyringError::TooMany => Self::new(Code::TooManyKeys, error.to_string()),
            KeyringError::Catalog(error) => error.into(),
        }
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").finish_non_exhaustive()
    }
}

impl Known {
    fn new(record: KeyRecord) -> Self {
        Self { record, revoked: CancellationToken::new() }
    }

    fn caller(&self, shutdown: &CancellationToken) -> Caller {
        let KeyRecord { id, owner, name, scope, .. } = &self.record;
        let nobody = warren_core::Caller::new(owner.clone(), name.clone());
        Caller {
            who: warren_core::Caller { key: Some(id.clone()), scope: *scope, ..nobody },
            guard: StreamGuard::new(self.revoked.clone(), shutdown.clone()),
        }
    }
}

impl Secret {
    fn random(random: &dyn Random) -> Self {
        let bits = [random.bits(), random.bits()].concat();
        Self(HEXLOWER.encode(&bits)[..DIGITS].to_owned())
    }

    /// As its owner gets it, the one time that it is shown.
    pub fn shown(&self) -> String {
        format!("{}{}", PREFIXES[0], self.0)
    }

    /// The same key as clients of the E2B protocol want it.
    pub fn shown_to_e2b(&self) -> String {
        format!("{}{}", PREFIXES[1], self.0)
    }

    fn hash(&self) -> Hash {
        Sha256::digest(self.0.as_bytes()).into()
    }
}

impl FromStr for Secret {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let digits = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or(text);
        let valid =
            digits.len() == DIGITS && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if valid { Ok(Self(digits.to_owned())) } else { Err(NotAKey) }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

fn parse_hash(text: &str) -> Option<Hash> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok()
}

//! Which sandbox a word of the command line means: the server says, and of sandboxes that no server
//! knows, this machine.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;

use warren_core::{ErrorCode, Found, OwnerBond, SandboxId, SandboxName, SandboxSpec, SandboxWord};
use warren_wire::client::Client;

use crate::error::{CliError, is};
use crate::global::Global;
use crate::local::{Local, is_root};
use crate::server::{Home, Place};

/// The label with the name of a sandbox that `warren run --keep` left. A server keeps names in its
/// catalog.
pub(crate) const NAME_LABEL: &str = "warren.name";

impl Global {
    /// The server, and the sandbox that a word means there.
    pub(crate) fn sandbox(&self, word: &SandboxWord) -> Result<(Client, SandboxId), CliError> {
        let client = self.client()?;
        let id = find(&client, word)?;
        Ok((client, id))
    }

    /// As [`Global::sandbox`], where the word may be left out for the default sandbox.
    pub(crate) fn sandbox_or_default(
        &self,
        word: Option<&SandboxWord>,
    ) -> Result<(Client, SandboxId), CliError> {
        self.sandbox(word.unwrap_or(&SandboxWord::Default))
    }

    /// The place that holds a sandbox, and its id: the server, unless only this machine knows it.
    pub(crate) fn home_of(&self, word: &SandboxWord) -> Result<(Home, SandboxId), CliError> {
        let client = match self.place()? {
            Place::Server(client) => client,
            Place::Machine => {
                let local = Local::instead_of_server(self)?;
                let id = local.find(word)?;
                return Ok((Home::Machine(Box::new(local)), id));
            }
        };
        match client.sandbox(word.as_str()) {
            Ok(sandbox) => Ok((Home::Server(client), sandbox.sandbox_id.parse().map_err(CliError::new)?)),
            Err(error) if is(&error, ErrorCode::SandboxNotFound) => {
                let (local, id) = self.kept(word)?.ok_or_else(|| CliError::from(error))?;
                Ok((Home::Machine(Box::new(local)), id))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A sandbox of this machine that the server does not know, if the word means one.
    pub(crate) fn kept(&self, word: &SandboxWord) -> Result<Option<(Local, SandboxId)>, CliError> {
        let local = match word {
            SandboxWord::Id(id) => Local::holding(self, id)?,
            // Which one is the last, the server has said.
            SandboxWord::Last | SandboxWord::Default => None,
            SandboxWord::Name(_) | SandboxWord::Beginning(_) if self.url.is_none() && is_root() => {
                Some(Local::open(self)?)
            }
            SandboxWord::Name(_) | SandboxWord::Beginning(_) => None,
        };
        let Some(local) = local else { return Ok(None) };
        let mut found = matches(word, &local.list()?);
        let one = found.pop().filter(|_| found.is_empty());
        Ok(one.map(|id| (local, id)))
    }
}

/// The sandbox that a word means to the server. An id is not asked for.
pub(crate) fn find(client: &Client, word: &SandboxWord) -> Result<SandboxId, CliError> {
    match word {
        SandboxWord::Id(id) => Ok(id.clone()),
        word => client.sandbox(word.as_str())?.sandbox_id.parse().map_err(CliError::new),
    }
}

/// As [`find`], where the word may mean something else than a sandbox.
pub(crate) fn find_if_any(client: &Client, word: &SandboxWord) -> Result<Option<SandboxId>, CliError> {
    match client.sandbox(word.as_str()) {
        Ok(sandbox) => sandbox.sandbox_id.parse().map(Some).map_err(CliError::new),
        Err(error) if is(&error, ErrorCode::SandboxNotFound) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Local {
    /// The sandbox of this machine that a word means.
    pub(crate) fn find(&self, word: &SandboxWord) -> Result<SandboxId, CliError> {
        if let SandboxWord::Id(id) = word {
            return Ok(id.clone());
        }
        if *word == SandboxWord::Default {
            let text = "there is no default sandbox without a server";
            return Err(CliError::coded(ErrorCode::NoDefaultSandbox, text));
        }
        let found = matches(word, &self.list()?);
        match found.as_slice() {
            [one] => Ok(one.clone()),
            [] => {
                let text = format!("there is no sandbox `{word}` on this machine");
                Err(CliError::coded(ErrorCode::SandboxNotFound, text))
            }
            several => {
                let listed: Vec<&str> = several.iter().take(5).map(SandboxId::as_str).collect();
                let text = format!("`{word}` may be {}: write more of it", listed.join(" or "));
                Err(CliError::coded(ErrorCode::AmbiguousPrefix, text))
            }
        }
    }

    /// Gives a new sandbox a name, unless another of this machine has it. Nobody else can take the
    /// name while the answer is held.
    pub(crate) fn give(&self, name: &SandboxName, spec: &mut SandboxSpec) -> Result<File, CliError> {
        let path = self.data_dir().join("names.lock");
        let mut options = OpenOptions::new();
        let lock = options.write(true).create(true).truncate(false).mode(0o600).open(&path);
        let lock = lock.map_err(|error| CliError::at(&path, error))?;
        lock.lock().map_err(|error| CliError::at(&path, error))?;
        if let Some(holder) = matches(&SandboxWord::Name(name.clone()), &self.list()?).first() {
            let text = format!("another sandbox of this machine, {holder}, has the name `{name}`");
            return Err(CliError::coded(ErrorCode::SandboxNameTaken, text));
        }
        spec.labels.insert(NAME_LABEL.to_owned(), name.to_string());
        Ok(lock)
    }
}

/// The sandboxes that a word may mean.
fn matches(word: &SandboxWord, found: &[Found]) -> Vec<SandboxId> {
    let ids = |wanted: &dyn Fn(&Found) -> bool| {
        found.iter().filter(|one| wanted(one)).map(|one| one.id.clone()).collect()
    };
    match word {
        SandboxWord::Id(id) => ids(&|one| one.id == *id),
        SandboxWord::Beginning(beginning) => ids(&|one| one.id.as_str().starts_with(beginning)),
        SandboxWord::Name(name) => ids(&|one| name_of(one) == Some(name.as_str())),
        SandboxWord::Last => {
            let kept = found.iter().filter(|one| one.owner == OwnerBond::Outlives);
            let last = kept.max_by_key(|one| (one.created_unix_ms, one.id.clone()));
            last.map(|one| one.id.clone()).into_iter().collect()
        }
        SandboxWord::Default => Vec::new(),
    }
}

/// The name of a sandbox of this machine.
pub(crate) fn name_of(found: &Found) -> Option<&str> {
    found.spec.labels.get(NAME_LABEL).map(String::as_str)
}

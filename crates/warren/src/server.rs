//! Which server the commands talk to: the one that flags or the environment name, else that of the
//! context in use, else the one of this machine's data directory.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use warren_wire::api::Page;
use warren_wire::client::{Client, ClientError, Trust};

use crate::contexts::{Contexts, LOCAL, same_url};
use crate::error::CliError;
use crate::global::Global;
use crate::local::{Local, NAME_A_SERVER, is_root, sudo};

/// Where a command does its work.
#[derive(Debug)]
pub(crate) enum Place {
    Server(Client),
    /// No server was named and none runs here, so this process does it itself.
    Machine,
}

/// The place that holds a sandbox.
pub(crate) enum Home {
    Server(Client),
    Machine(Box<Local>),
}

/// The file in which `warren serve` says how to reach it.
#[derive(Deserialize)]
struct Announcement {
    url: String,
    key: String,
}

/// A server that somebody named.
#[derive(Debug)]
pub(crate) struct Named {
    /// The context's name, or the address.
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) key: Option<String>,
    pub(crate) ca: Option<PathBuf>,
}

impl Global {
    /// The server that was named, or the one that runs here, or none.
    pub(crate) fn place(&self) -> Result<Place, CliError> {
        if let Some(named) = self.named()? {
            return self.connect(named).map(Place::Server);
        }
        match self.announced()? {
            Some(announced) if answers(&announced.url) => {
                let key = self.key.as_deref().unwrap_or(&announced.key);
                Ok(Place::Server(Client::new(&announced.url, key)?))
            }
            _ => Ok(Place::Machine),
        }
    }

    fn connect(&self, named: Named) -> Result<Client, CliError> {
        let of_machine = || match self.announced() {
            Ok(announced) => announced.filter(|announced| same_url(&announced.url, &named.url)),
            // It is another server that was named, whose key does not lie there.
            Err(_) => None,
        };
        let key = named.key.clone().or_else(|| Some(of_machine()?.key)).ok_or_else(|| {
            CliError::new(format!("there is no key for {}", named.url))
                .hint("give it with --key or WARREN_API_KEY, or keep it with `warren context add`")
        })?;
        match named.ca.as_deref().map(read_trust).transpose()? {
            Some(trust) => Ok(Client::trusting(&named.url, &key, trust)?),
            None => Ok(Client::new(&named.url, &key)?),
        }
    }

    /// The server that flags name, else the environment, else the context in use. A data directory
    /// that was named has its own server.
    pub(crate) fn named(&self) -> Result<Option<Named>, CliError> {
        let is_flag = |value: Option<&str>, variable: &str| {
            value.is_some() && std::env::var(variable).ok().as_deref() != value
        };
        let context_first =
            is_flag(self.context.as_deref(), "WARREN_CONTEXT") && !is_flag(self.url.as_deref(), "WARREN_URL");
        match (&self.url, &self.context) {
            (_, Some(name)) if context_first => {
                // What belongs to a context that a flag names goes before the environment.
                let key = self.key.clone().filter(|key| is_flag(Some(key), "WARREN_API_KEY"));
                let ca = self.ca.clone().filter(|ca| is_flag(ca.to_str(), "WARREN_CA"));
                self.in_context(name, key, ca)
            }
            (Some(url), _) => self.at_url(url).map(Some),
            (None, Some(name)) => self.in_context(name, self.key.clone(), self.ca.clone()),
            (None, None) if self.data_dir.is_some() => Ok(None),
            (None, None) => match Contexts::load()?.current {
                Some(name) => self.in_context(&name, self.key.clone(), self.ca.clone()),
                None => Ok(None),
            },
        }
    }

    fn at_url(&self, url: &str) -> Result<Named, CliError> {
        let (mut key, mut ca) = (self.key.clone(), self.ca.clone());
        if key.is_none()
            && let Some(known) = Contexts::load()?.of_url(url)
        {
            key.clone_from(&known.key);
            ca = ca.or_else(|| known.ca.clone());
        }
        Ok(Named { name: url.to_owned(), url: url.to_owned(), key, ca })
    }

    fn in_context(
        &self,
        name: &str,
        key: Option<String>,
        ca: Option<PathBuf>,
    ) -> Result<Option<Named>, CliError> {
        if name == LOCAL {
            return Ok(None);
        }
        let contexts = Contexts::load()?;
        let known = contexts.get(name)?.clone();
        let key = key.or(known.key).or_else(|| self.key.clone());
        let ca = ca.or(known.ca).or_else(|| self.ca.clone());
        Ok(Some(Named { name: name.to_owned(), url: known.url, key, ca }))
    }

    /// The server, for commands that need one.
    pub(crate) fn client(&self) -> Result<Client, CliError> {
        match self.place()? {
            Place::Server(client) => Ok(client),
            Place::Machine => {
                let nothing =
                    format!("no server runs on the data directory `{}`", self.data_dir()?.display());
                let start = if is_root() { "warren serve".to_owned() } else { sudo::command_of("serve") };
                Err(CliError::new(nothing)
                    .hint(format!("start one: {start}"))
                    .hint(NAME_A_SERVER)
                    .hint("without one there are `warren run` and `warren shell`"))
            }
        }
    }

    /// The address of the data directory's server, as it announced it.
    pub(crate) fn announced_url(&self) -> Option<String> {
        self.announced().ok().flatten().map(|announced| announced.url)
    }

    fn announced(&self) -> Result<Option<Announcement>, CliError> {
        let path = self.data_dir()?.join("server.json");
        let text = match fs::read(&path) {
            Ok(text) => text,
            // A server may run here even if this user cannot see it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let text = format!(
                    "`{}`, where a server on this machine leaves its key, is closed to this user",
                    path.display()
                );
                let refused = CliError::new(text).hint(format!("as root: {}", sudo::this_command()));
                return Err(refused.hint(NAME_A_SERVER));
            }
            Err(_) => return Ok(None),
        };
        let announced = serde_json::from_slice(&text).map_err(|error| {
            CliError::new(error)
                .hint(format!("{} is damaged: the next `warren serve` writes it anew", path.display()))
        })?;
        Ok(Some(announced))
    }
}

/// The authorities in a file.
pub(crate) fn read_trust(path: &Path) -> Result<Trust, CliError> {
    let failed = |error: &dyn std::fmt::Display| CliError::new(format!("--ca {}: {error}", path.display()));
    let text = fs::read(path).map_err(|error| failed(&error))?;
    Trust::only(&text).map_err(|error| failed(&error).hint("it must hold certificates in the form PEM"))
}

/// Asks for all pages of a list.
pub(crate) fn all_pages<T>(
    mut ask: impl FnMut(Option<String>) -> Result<Page<T>, ClientError>,
) -> Result<Vec<T>, CliError> {
    let (mut items, mut cursor) = (Vec::new(), None);
    loop {
        let page = ask(cursor)?;
        items.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(items);
        }
    }
}

/// Tells whether somebody listens there: a server that was killed leaves its announcement.
fn answers(url: &str) -> bool {
    let authority = url.trim_start_matches("http://").trim_end_matches('/');
    let address = authority.parse().ok();
    address.is_some_and(|address| TcpStream::connect_timeout(&address, Duration::from_secs(2)).is_ok())
}

//! Which server the commands talk to: the one that was named, else the one of this machine's data
//! directory.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::time::Duration;

use serde::Deserialize;
use warren_core::{ErrorCode, SandboxId};
use warren_wire::api::Page;
use warren_wire::client::{Client, ClientError};

use crate::error::{CliError, is};
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

impl Global {
    /// The server that was named, or the one that runs here, or none.
    pub(crate) fn place(&self) -> Result<Place, CliError> {
        match (&self.url, &self.key) {
            (Some(url), Some(key)) => Ok(Place::Server(Client::new(url, key)?)),
            (Some(url), None) => match self.announced()? {
                Some(announced) if announced.url.trim_end_matches('/') == url.trim_end_matches('/') => {
                    Ok(Place::Server(Client::new(url, &announced.key)?))
                }
                _ => Err(CliError::new(format!("there is no key for {url}"))
                    .hint("give it with --key or WARREN_API_KEY")),
            },
            (None, key) => match self.announced()? {
                Some(announced) if answers(&announced.url) => {
                    let key = key.as_deref().unwrap_or(&announced.key);
                    Ok(Place::Server(Client::new(&announced.url, key)?))
                }
                _ => Ok(Place::Machine),
            },
        }
    }

    /// The place that holds a sandbox: the server, unless only this machine knows it.
    pub(crate) fn home_of(&self, id: &SandboxId) -> Result<Home, CliError> {
        let client = match self.place()? {
            Place::Server(client) => client,
            Place::Machine => return Ok(Home::Machine(Box::new(Local::instead_of_server(self)?))),
        };
        match client.sandbox(id.as_str()) {
            Ok(_) => Ok(Home::Server(client)),
            Err(error) if is(&error, ErrorCode::SandboxNotFound) => {
                let local = Local::holding(self, id)?.ok_or_else(|| CliError::from(error))?;
                Ok(Home::Machine(Box::new(local)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The server, for commands that need one.
    pub(crate) fn client(&self) -> Result<Client, CliError> {
        match self.place()? {
            Place::Server(client) => Ok(client),
            Place::Machine => {
                let nothing =
                    format!("no server runs on the data directory `{}`", self.data_dir()?.display());
                let start = if is_root() { "warren serve".to_owned() } else { sudo::command_of("serve") };
                Err(CliError::new(nothing).hint(format!("start one: {start}")).hint(NAME_A_SERVER))
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

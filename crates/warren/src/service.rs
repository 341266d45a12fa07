//! Which server the commands talk to: the one that was named, else the one of this machine's data
//! directory.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::time::Duration;

use serde::Deserialize;
use warren_wire::client::Client;

use crate::cli::Global;
use crate::error::CliError;
use crate::local::{NAME_A_SERVER, data_dir, is_root, sudo};

/// Where a command is carried out.
#[derive(Debug)]
pub(crate) enum Place {
    Server(Client),
    /// No server was named and none runs here: sandboxes that `warren run --keep` left are looked
    /// after by this process.
    Machine,
}

/// What `warren serve` leaves in its data directory for whoever may read it.
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

    /// The server, for commands that need one.
    pub(crate) fn client(&self) -> Result<Client, CliError> {
        match self.place()? {
            Place::Server(client) => Ok(client),
            Place::Machine => {
                let nothing = format!("no server runs on the data directory `{}`", data_dir(self)?.display());
                let start = if is_root() { "warren serve".to_owned() } else { sudo::command_of("serve") };
                Err(CliError::new(nothing).hint(format!("start one: {start}")).hint(NAME_A_SERVER))
            }
        }
    }

    /// Where the server of the data directory says that it is.
    pub(crate) fn announced_url(&self) -> Option<String> {
        self.announced().ok().flatten().map(|announced| announced.url)
    }

    fn announced(&self) -> Result<Option<Announcement>, CliError> {
        let path = data_dir(self)?.join("server.json");
        let text = match fs::read(&path) {
            Ok(text) => text,
            // Whoever may not look would be told that nothing runs here.
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

/// Whether somebody listens there. What a server that was killed announced is still in its place.
fn answers(url: &str) -> bool {
    let authority = url.trim_start_matches("http://").trim_end_matches('/');
    let address = authority.parse().ok();
    address.is_some_and(|address| TcpStream::connect_timeout(&address, Duration::from_secs(2)).is_ok())
}

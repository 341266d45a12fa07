use clap::Args;
use warren_core::{ByteSize, ErrorCode, ImageAddress, TemplateName};
use warren_registry::{Credentials, Reach};
use warren_store::{ImportError, ImportSource};
use warren_wire::api::{PullProgress, PullTemplate, Template};
use warren_wire::client::{Client, ClientError, EventReader};

use super::docker_config::{self, Known};
use super::{import, told};
use crate::error::CliError;
use crate::global::Global;
use crate::hidden;
use crate::local::Local;
use crate::server::Place;
use crate::ui;

const MOST_PASSWORD: u64 = 64 << 10;

const EXAMPLES: &str = "\
Examples:
  warren template pull python:3.12
  warren template pull ghcr.io/org/app:1.4 --name app
  warren template pull registry.example:5000/app --username ada < password.txt

Registries without TLS and mirrors of registries are the settings images.plain_http and images.mirrors.";

/// Make a template of an image of a registry.
///
/// The image for this machine is chosen, each byte is checked against the image's digests, and its
/// environment, user, working directory and command become the template's. Layers that another
/// template has, or that arrived before a pull broke off, are not fetched again. Credentials are
/// those of --username, or else those that Docker's own configuration has for the registry.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Pull {
    /// The image: python:3.12, ghcr.io/org/app:1, registry.example:5000/app@sha256:...
    image: ImageAddress,
    /// The template's name, if it is not the image's
    #[arg(long)]
    name: Option<TemplateName>,
    /// Replace a template of the same name
    #[arg(long)]
    replace: bool,
    /// The user at the registry; the password is read from the standard input
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Pull {
    pub(super) fn run(self, global: &Global) -> Result<(), CliError> {
        let name = self.name.clone().or_else(|| self.image.template_name()).ok_or_else(|| {
            CliError::new(format!("`{}` has no name that a template can have", self.image))
                .hint("give one with --name")
        })?;
        let known = self.credentials()?;
        let pulled = match global.place()? {
            Place::Server(client) => self.pull_there(&client, &name, &known),
            Place::Machine => self.pull_here(&Local::instead_of_server(global)?, &name, &known),
        };
        pulled.map_err(|error| match known {
            Known::Helper(helper) => error.hint(format!(
                "docker-credential-{helper} keeps the credentials of `{}`, and is not asked: give them with --username",
                self.image.registry()
            )),
            Known::Nothing | Known::Credentials(_) => error,
        })
    }

    fn credentials(&self) -> Result<Known, CliError> {
        let Some(username) = self.username.clone() else {
            return Ok(docker_config::find(self.image.registry()));
        };
        let prompt = format!("The password of {username} at {}, which is not shown:", self.image.registry());
        let read = hidden::read(&prompt, MOST_PASSWORD);
        let password = read.map_err(|error| CliError::new(format!("read the password: {error}")))?;
        let password = password.trim_end_matches(['\r', '\n']).to_owned();
        Ok(Known::Credentials(Credentials::Password { username, password }))
    }

    /// Pulls into the data directory, since no server was named and none runs here.
    fn pull_here(&self, local: &Local, name: &TemplateName, known: &Known) -> Result<(), CliError> {
        let registries = local.registries()?;
        let credentials = match known {
            Known::Credentials(credentials) => Some(credentials.clone()),
            Known::Nothing | Known::Helper(_) => None,
        };
        let image =
            registries.image(self.image.clone(), credentials, Reach::Anywhere).map_err(CliError::new)?;
        let imported = import(local, name, ImportSource::Registry(&image), self.replace)?;
        told("pulled", name, &imported, self.json);
        Ok(())
    }

    fn pull_there(&self, client: &Client, name: &TemplateName, known: &Known) -> Result<(), CliError> {
        let mut body = PullTemplate {
            image: self.image.to_string(),
            name: Some(name.to_string()),
            replace: self.replace,
            ..PullTemplate::default()
        };
        match known {
            Known::Credentials(Credentials::Password { username, password }) => {
                body.username = Some(username.clone());
                body.password = Some(password.clone());
            }
            Known::Credentials(Credentials::Identity(token)) => body.identity_token = Some(token.clone()),
            Known::Nothing | Known::Helper(_) => {}
        }
        let pulled = follow(client.pull_template(&body)?)?;
        ui::show(self.json, &pulled, |pulled| {
            ui::tell(&format!("pulled {name} on {}: {}", client.base(), ByteSize(pulled.size_bytes)));
            ui::tell(&format!("try it: warren create --template {name}"));
        });
        Ok(())
    }
}

/// Shows how far the server is, until it has the template.
fn follow(mut events: EventReader) -> Result<Template, CliError> {
    let shown = ui::Progress::new();
    while let Some(event) = events.next_event()? {
        match event.name.as_str() {
            "progress" => {
                let now: PullProgress = read(&event.data)?;
                shown.at(now.done_bytes, now.total_bytes, &format!("{} entries", now.entries));
            }
            "template" => return read(&event.data),
            _ => {}
        }
    }
    Err(CliError::new("the server ended the answer early")
        .hint("`warren template ls` shows whether it went on"))
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, CliError> {
    serde_json::from_str(text).map_err(|error| ClientError::Decode(error).into())
}

/// The error of an import, with its code if a registry is to blame.
pub(super) fn failed(error: ImportError) -> CliError {
    match error {
        ImportError::Registry(error) => CliError::coded(error.kind.code(), error),
        ImportError::Image(_) => CliError::coded(ErrorCode::InvalidValue, error),
        error => CliError::new(error),
    }
}

use std::fs;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use warren_core::{NetworkRule, SecretName};
use warren_wire::api::{PutSecret, Secret};

use crate::error::CliError;
use crate::global::Global;
use crate::hidden;
use crate::time::age_of;
use crate::ui;

/// A little more than the server takes, so that longer values are refused and not cut.
const MOST_BYTES: u64 = 17 << 10;

const PROMPT: &str = "The value, which is not shown:";

const EXAMPLES: &str = "\
Examples:
  warren secret set openai --host api.openai.com < key.txt
  warren secret set git --host github.com --placeholder GIT_TOKEN --value-file token.txt
  warren secret set search --host api.example.com --header X-Api-Key --template '{}'

The value is read from a file or from the standard input, never from the command line. Sandboxes do not get it: it is put
into their requests to these hosts, over TLS, if their policy names the secret.";

/// Keep secrets that sandboxes use without having them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Secrets {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make or replace a secret; its value is read from the standard input
    Set(Set),
    /// List secrets, never their values
    #[command(alias = "list")]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove secrets
    #[command(aliases = ["delete", "remove"])]
    Rm {
        /// The secrets, as `warren secret ls` lists them
        #[arg(required = true, value_name = "NAME")]
        names: Vec<SecretName>,
    },
}

#[derive(Debug, Args)]
struct Set {
    /// Its name
    name: SecretName,
    /// A host it may go to: api.example.com, *.example.com, api.example.com:443 (may be repeated)
    #[arg(long = "host", required = true, value_name = "HOST", value_delimiter = ',')]
    hosts: Vec<NetworkRule>,
    /// The header that it is put into [default: Authorization]
    #[arg(long, value_name = "NAME")]
    header: Option<String>,
    /// The header's value, with {} where the secret goes [default: Bearer {}]
    #[arg(long, value_name = "TEXT")]
    template: Option<String>,
    /// Instead of a header: the text that programs in the sandbox use, to be replaced in the
    /// headers they send
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["header", "template"])]
    placeholder: Option<String>,
    /// Read the value from a file
    #[arg(long, value_name = "FILE")]
    value_file: Option<PathBuf>,
}

impl Secrets {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let client = global.client()?;
        match self.action {
            Action::Set(set) => {
                let name = set.name.to_string();
                client.put_secret(&name, &set.body()?)?;
                ui::say(&format!("secret {name} is kept"));
            }
            Action::Ls { json } => {
                let secrets = client.secrets()?.items;
                ui::show_table(json, ["NAME", "HOSTS", "PUT INTO", "CHANGED"], &secrets, row);
            }
            Action::Rm { names } => {
                names.iter().try_for_each(|name| client.remove_secret(name.as_str()))?;
            }
        }
        Ok(())
    }
}

impl Set {
    fn body(self) -> Result<PutSecret, CliError> {
        let value = match &self.value_file {
            Some(path) => {
                let failed =
                    |error| CliError::new(format!("read the value from `{}`: {error}", path.display()));
                fs::File::open(path).and_then(|file| hidden::read_text(file, MOST_BYTES)).map_err(failed)?
            }
            None => hidden::read(PROMPT, MOST_BYTES)
                .map_err(|error| CliError::new(format!("read the value: {error}")))?,
        };
        Ok(PutSecret {
            value: one_line(value)?,
            hosts: self.hosts.iter().map(ToString::to_string).collect(),
            header: self.header,
            template: self.template,
            placeholder: self.placeholder,
        })
    }
}

/// Cuts the line feed that files and `echo` end with.
fn one_line(mut text: String) -> Result<String, CliError> {
    let end = text.trim_end_matches(['\r', '\n']).len();
    text.truncate(end);
    if text.is_empty() {
        return Err(
            CliError::new("the value is empty").hint("give it on the standard input, or with --value-file")
        );
    }
    Ok(text)
}

fn row(secret: &Secret) -> [String; 4] {
    let place = match (&secret.placeholder, &secret.header, &secret.template) {
        (Some(placeholder), ..) => format!("for {placeholder}"),
        (None, Some(header), Some(template)) => format!("{header}: {template}"),
        (None, ..) => String::new(),
    };
    [secret.name.clone(), secret.hosts.join(" "), place, age_of(&secret.changed_at)]
}

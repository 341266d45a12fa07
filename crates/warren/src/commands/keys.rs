use clap::{Args, Subcommand};
use warren_wire::api::{CreateKey, Key, Scope};

use crate::error::CliError;
use crate::global::Global;
use crate::time::age_of;
use crate::ui;
use crate::word::{parse_word, word};

/// Make, list and revoke API keys.
#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Make a key and print it, this once
    Create(Make),
    /// List keys, never the keys themselves
    #[command(alias = "list")]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke keys, and end the connections that use them
    #[command(aliases = ["rm", "delete", "remove"])]
    Revoke {
        /// The keys' ids, as `warren keys ls` lists them
        #[arg(required = true, value_name = "KEY-ID")]
        ids: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Make {
    /// A name that says what the key is used for
    name: String,
    /// Its scope: read, use or admin
    #[arg(long, default_value = "use", value_parser = parse_word::<Scope>)]
    scope: Scope,
    /// Its owner [default: you]
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Print all about it as JSON
    #[arg(long)]
    json: bool,
}

impl Keys {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let client = global.client()?;
        match self {
            Self::Create(make) => {
                let body = CreateKey { name: make.name, scope: make.scope, owner: make.owner };
                let key = client.create_key(&body)?;
                ui::show(make.json, &key, |key| ui::print(key.key.as_deref().unwrap_or_default()));
            }
            Self::Ls { json } => {
                let keys = client.keys()?.items;
                let headings = ["KEY", "NAME", "OWNER", "SCOPE", "BEGINS", "AGE", "STATE"];
                ui::show_table(json, headings, &keys, row);
            }
            Self::Revoke { ids } => ids.iter().try_for_each(|id| client.revoke_key(id).map(drop))?,
        }
        Ok(())
    }
}

fn row(key: &Key) -> [String; 7] {
    let state = if key.revoked_at.is_some() { "revoked" } else { "valid" };
    [
        key.key_id.clone(),
        key.name.clone(),
        key.owner.clone(),
        word(&key.scope),
        key.hint.clone(),
        age_of(&key.created_at),
        state.to_owned(),
    ]
}

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use warren_wire::client::Client;

use crate::contexts::{Context, Contexts, LOCAL, parse_name};
use crate::error::CliError;
use crate::global::Global;
use crate::server::read_trust;
use crate::ui;

const EXAMPLES: &str = "\
Examples:
  warren context add prod https://warren.example.com --key - < key
  warren context add lab https://10.0.0.7:7443 --ca lab-ca.pem --key \"$LAB_KEY\"
  warren context use prod
  warren --context lab ls
  warren context use local";

/// Name servers, and choose the one that commands talk to.
///
/// Names and keys are kept in $XDG_CONFIG_HOME/warren/contexts.json, for your eyes alone. A command
/// talks to the server of --url or --context, else of WARREN_URL or WARREN_CONTEXT, else of the
/// context in use, else to the one that runs on this machine. Whoever names a data directory means
/// this machine.
#[derive(Debug, Subcommand)]
#[command(after_long_help = EXAMPLES)]
pub(crate) enum Contextual {
    Add(Add),
    /// Use a context from now on; `local` is this machine's own server
    Use {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// List contexts, with a * at the one in use
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Forget contexts and their keys
    Rm {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Show a context, or the server that commands talk to now; never the key
    Show {
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Name a server.
///
/// Its key is that of --key or WARREN_API_KEY; `--key -` reads it from standard input, where no
/// list of processes shows it. With --ca or WARREN_CA, that authority alone vouches for it.
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// A name of your own
    #[arg(value_name = "NAME", value_parser = parse_name)]
    name: String,
    /// Its address, such as `https://warren.example.com`
    #[arg(value_name = "URL")]
    address: String,
    /// Replace a context of the same name
    #[arg(long)]
    replace: bool,
    /// Use it from now on
    #[arg(long = "use")]
    and_use: bool,
}

/// A context as it is shown.
#[derive(Debug, Serialize)]
struct Shown {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca: Option<PathBuf>,
    has_key: bool,
    in_use: bool,
}

impl Contextual {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        match self {
            Self::Add(add) => add.run(global),
            Self::Use { name } => Contexts::change(|contexts| {
                contexts.current = if name == LOCAL {
                    None
                } else {
                    contexts.get(&name)?;
                    Some(name.clone())
                };
                Ok(())
            }),
            Self::Ls { json } => {
                let contexts = Contexts::load()?;
                let rows: Vec<Shown> = all(&contexts);
                ui::show_table(json, ["", "NAME", "URL", "CA", "KEY"], &rows, row);
                Ok(())
            }
            Self::Rm { names } => remove(&names),
            Self::Show { name: Some(name), json } => {
                let contexts = Contexts::load()?;
                contexts.get(&name)?;
                all(&contexts).iter().filter(|shown| shown.name == name).for_each(|shown| tell(shown, json));
                Ok(())
            }
            Self::Show { name: None, json } => {
                let shown = match global.named()? {
                    Some(named) => Shown {
                        name: named.name,
                        url: Some(named.url),
                        ca: named.ca,
                        has_key: named.key.is_some(),
                        in_use: true,
                    },
                    None => Shown { in_use: true, ..local(global.announced_url()) },
                };
                tell(&shown, json);
                Ok(())
            }
        }
    }
}

impl Add {
    fn run(self, global: &Global) -> Result<(), CliError> {
        let key = match global.key.as_deref() {
            Some("-") => Some(ui::text_or_stdin("-")?.trim().to_owned()),
            key => key.map(str::to_owned),
        };
        let ca = global.ca.as_deref().map(std::path::absolute).transpose().map_err(CliError::new)?;
        let checked = key.as_deref().unwrap_or_default();
        match ca.as_deref().map(read_trust).transpose()? {
            Some(trust) => Client::trusting(&self.address, checked, trust)?,
            None => Client::new(&self.address, checked)?,
        };
        Contexts::change(|contexts| {
            if contexts.contexts.contains_key(&self.name) && !self.replace {
                let exists = CliError::new(format!("there is a context `{}`", self.name));
                return Err(exists.hint("--replace puts the new one in its place"));
            }
            let url = self.address.trim_end_matches('/').to_owned();
            contexts.contexts.insert(self.name.clone(), Context { url, key: key.clone(), ca: ca.clone() });
            if self.and_use {
                contexts.current = Some(self.name.clone());
            }
            Ok(())
        })?;
        if key.is_none() {
            ui::say(&format!("{} has no key: give it with --key --replace, or WARREN_API_KEY", self.name));
        }
        if !self.and_use {
            ui::say(&format!("to use it: warren context use {}", self.name));
        }
        Ok(())
    }
}

fn remove(names: &[String]) -> Result<(), CliError> {
    let was_used = Contexts::change(|contexts| {
        for name in names {
            contexts.get(name)?;
            contexts.contexts.remove(name);
        }
        let gone = contexts.current.take_if(|current| names.contains(current));
        Ok(gone.is_some())
    })?;
    if was_used {
        ui::say("commands talk to this machine's own server again");
    }
    Ok(())
}

fn local(url: Option<String>) -> Shown {
    Shown { name: LOCAL.to_owned(), url, ca: None, has_key: false, in_use: false }
}

/// All contexts, this machine's server first.
fn all(contexts: &Contexts) -> Vec<Shown> {
    let named = contexts.contexts.iter().map(|(name, context)| Shown {
        name: name.clone(),
        url: Some(context.url.clone()),
        ca: context.ca.clone(),
        has_key: context.key.is_some(),
        in_use: contexts.current.as_ref() == Some(name),
    });
    let local = Shown { in_use: contexts.current.is_none(), ..local(None) };
    std::iter::once(local).chain(named).collect()
}

fn row(shown: &Shown) -> [String; 5] {
    let ca = shown.ca.as_ref().map(|path| path.display().to_string());
    [
        if shown.in_use { "*" } else { "" }.to_owned(),
        shown.name.clone(),
        shown.url.clone().unwrap_or_else(|| "the one of this machine".to_owned()),
        ca.unwrap_or_else(|| "-".to_owned()),
        if shown.has_key { "yes" } else { "-" }.to_owned(),
    ]
}

fn tell(shown: &Shown, json: bool) {
    ui::show(json, shown, |shown| {
        let [_, name, url, ca, key] = row(shown);
        ui::print_plain(&format!("name  {name}\nurl   {url}\nca    {ca}\nkey   {key}"));
    });
}

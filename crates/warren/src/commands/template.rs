mod bootstrap;
mod browser;
mod build;
mod docker_config;
mod pack;
mod pull;
mod telling;

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use warren_core::{ByteSize, TemplateName};
use warren_store::{ImportLimits, ImportRequest, ImportSource, Imported, Progress, Replace, Skipped};
use warren_wire::api::{self, MakeTemplate};
use warren_wire::client::Client;

use crate::copying::pack::streaming;
use crate::error::CliError;
use crate::global::Global;
use crate::local::Local;
use crate::server::Place;
use crate::travel::point;
use crate::ui;

/// Work with templates: the file trees that sandboxes start from.
///
/// `host` is built in: the machine's own /usr, read-only, under a generated skeleton. Templates are
/// on the server that commands talk to, and in the data directory where there is none.
#[derive(Debug, Subcommand)]
pub(crate) enum Template {
    Build(build::Build),
    Import(Import),
    Make(Make),
    /// List templates.
    #[command(alias = "list")]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a template that no sandbox uses.
    #[command(aliases = ["delete", "remove"])]
    Rm {
        name: TemplateName,
    },
    Pull(pull::Pull),
}

/// Make a template of a root file system or an image.
///
/// The source is a directory, a tar archive of a root file system (plain, gzip or zstd), an OCI
/// image archive, or what `docker save` writes. It is told by its content. `-` reads an archive
/// from standard input.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The template's name
    name: TemplateName,
    /// Where it comes from
    source: PathBuf,
    /// Replace a template of the same name
    #[arg(long)]
    replace: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Make a template of a snapshot.
///
/// Sandboxes that start from it have the snapshot's files. It stands on the snapshot's own template
/// and needs no more room than the snapshot. Needs a server.
#[derive(Debug, Args)]
pub(crate) struct Make {
    /// The template's name
    name: TemplateName,
    /// The snapshot: its id, the beginning of it, its name or SBX:NAME
    #[arg(value_name = "SNAP")]
    snapshot: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Template {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        match self {
            Self::Build(args) => args.run(global),
            Self::Import(args) => args.run(global),
            Self::Make(args) => args.run(global),
            Self::Ls { json } => match global.place()? {
                Place::Server(client) => list_of(&client, json),
                Place::Machine => list(&Local::instead_of_server(global)?, json),
            },
            Self::Rm { name } => match global.place()? {
                Place::Server(client) => Ok(client.delete_template(name.as_str())?),
                Place::Machine => {
                    let local = Local::instead_of_server(global)?;
                    local.templates.remove(&name, &|name| in_use(&local, name)).map_err(CliError::new)
                }
            },
            Self::Pull(args) => args.run(global),
        }
    }
}

fn in_use(local: &Local, name: &TemplateName) -> bool {
    // If the sandboxes cannot be listed, none may be taken for unused.
    local.list().map_or(true, |found| found.iter().any(|sandbox| sandbox.spec.used_template() == Some(name)))
}

impl Import {
    fn run(self, global: &Global) -> Result<(), CliError> {
        match global.place()? {
            Place::Server(client) => self.send(&client),
            Place::Machine => self.here(&Local::instead_of_server(global)?),
        }
    }

    fn here(self, local: &Local) -> Result<(), CliError> {
        let source = if self.source.as_os_str() == "-" {
            ImportSource::Stream(Box::new(std::io::stdin()))
        } else {
            ImportSource::Path(self.source)
        };
        let imported = import(local, &self.name, source, self.replace)?;
        told("imported", &self.name, &imported, self.json);
        Ok(())
    }

    fn send(&self, client: &Client) -> Result<(), CliError> {
        if !self.replace {
            refuse_to_replace(client, &self.name)?;
        }
        let progress = ui::Progress::new();
        let name = self.name.as_str();
        let put = |content: &mut dyn Read| {
            Ok(client.import_template(name, None, &mut progress.watch(content, name))?)
        };
        let imported = if self.source.as_os_str() == "-" {
            put(&mut std::io::stdin())?
        } else if self.source.is_dir() {
            streaming(|archive| pack::root(archive, &self.source), put)?
        } else {
            put(&mut File::open(&self.source).map_err(|error| CliError::at(&self.source, error))?)?
        };
        drop(progress);
        ui::show(self.json, &imported, |imported| {
            let size = ByteSize(imported.size_bytes);
            ui::print(&format!("imported {name} on {}: {size}", client.base()));
            ui::print(&format!("try it: warren create --template {name}"));
        });
        Ok(())
    }
}

/// Fails if the server has a template of this name.
fn refuse_to_replace(client: &Client, name: &TemplateName) -> Result<(), CliError> {
    let known = client.templates()?;
    if known.items.iter().any(|template| template.name == name.as_str()) {
        return Err(build::exists(&format!("{} has a template `{name}`", client.base())));
    }
    Ok(())
}

/// Imports a template, and shows on a terminal how far it is.
fn import(
    local: &Local,
    name: &TemplateName,
    source: ImportSource<'_>,
    replace: bool,
) -> Result<Imported, CliError> {
    let busy = |name: &TemplateName| in_use(local, name);
    let shown = ui::Progress::new();
    let mut progress = |now: Progress| {
        shown.at(now.read_bytes, now.total_bytes, &format!("{} entries", now.entries));
    };
    let imported = local.templates.import(ImportRequest {
        name: name.clone(),
        source,
        replace: if replace { Replace::Unless(&busy) } else { Replace::Never },
        limits: ImportLimits::default(),
        progress: &mut progress,
    });
    drop(shown);
    imported.map_err(pull::failed)
}

/// Prints what there is now.
fn told(done: &str, name: &TemplateName, imported: &Imported, json: bool) {
    let manifest = &imported.template.manifest;
    if json {
        return ui::print_json(manifest);
    }
    let size = ByteSize(manifest.size_bytes);
    ui::tell(&format!("{done} {name}: {} entries, {size}", manifest.entries));
    let skipped = imported.skipped;
    if skipped != Skipped::default() {
        ui::say(&format!(
            "left out: {} device nodes, {} sockets, {} mounted file systems",
            skipped.devices, skipped.sockets, skipped.mounts
        ));
    }
    ui::tell(&format!("try it: warren run --template {name} ls /"));
}

impl Make {
    fn run(self, global: &Global) -> Result<(), CliError> {
        let client = global.client()?;
        let snapshot = point::snapshot(&client, &self.snapshot)?;
        let body = MakeTemplate { name: self.name.to_string() };
        let made = client.make_template(snapshot.as_str(), &body)?;
        ui::show(self.json, &made, |made| {
            ui::tell(&format!("made {}: {}", made.name, ByteSize(made.size_bytes)));
            ui::tell(&format!("try it: warren create --template {}", made.name));
        });
        Ok(())
    }
}

fn list_of(client: &Client, json: bool) -> Result<(), CliError> {
    let templates = client.templates()?.items;
    for template in &templates {
        if let Some(reason) = &template.broken {
            ui::complain(&format!("{} cannot be used: {reason}", template.name));
        }
    }
    let row = |template: &api::Template| {
        let size = ByteSize(template.size_bytes).to_string();
        [template.name.clone(), size, template.user.clone(), template.source.clone()]
    };
    ui::show_table(json, ["TEMPLATE", "SIZE", "USER", "SOURCE"], &templates, row);
    Ok(())
}

fn list(local: &Local, json: bool) -> Result<(), CliError> {
    let listing = local.templates.list().map_err(CliError::new)?;
    let mut templates = vec![local.templates.host().map_err(CliError::new)?];
    templates.extend(listing.templates);
    for error in &listing.damaged {
        ui::complain(&format!("{error}"));
    }
    let manifests: Vec<_> = templates.iter().map(|template| &template.manifest).collect();
    ui::show(json, &manifests, |_| {
        let rows: Vec<_> = templates.iter().map(row).collect();
        ui::print_table(["TEMPLATE", "SIZE", "USER", "COMMAND"], &rows);
    });
    Ok(())
}

fn row(template: &warren_store::Template) -> [String; 4] {
    let manifest = &template.manifest;
    let size = ByteSize(manifest.size_bytes).to_string();
    [template.name.to_string(), size, manifest.config.user.clone(), manifest.config.command.join(" ")]
}

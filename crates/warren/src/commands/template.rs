mod bootstrap;
mod build;

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use warren_core::{ByteSize, TemplateName};
use warren_store::{ImportLimits, ImportRequest, ImportSource, Imported, Progress, Replace, Skipped};
use warren_wire::api::MakeTemplate;

use crate::error::CliError;
use crate::global::Global;
use crate::local::Local;
use crate::ui;

/// Work with templates: the file trees that sandboxes start from.
///
/// `host` is built in: this machine's own /usr, read-only, under a generated skeleton.
#[derive(Debug, Subcommand)]
pub(crate) enum Template {
    Build(build::Build),
    Import(Import),
    Make(Make),
    /// List templates.
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a template that no sandbox uses.
    Rm {
        name: TemplateName,
    },
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
            Self::Import(args) => args.run(&Local::open(global)?),
            Self::Make(args) => args.run(global),
            Self::Ls { json } => list(&Local::open(global)?, json),
            Self::Rm { name } => {
                let local = Local::open(global)?;
                local.templates.remove(&name, &|name| in_use(&local, name)).map_err(CliError::new)
            }
        }
    }
}

fn in_use(local: &Local, name: &TemplateName) -> bool {
    // If the sandboxes cannot be listed, none may be taken for unused.
    local.list().map_or(true, |found| found.iter().any(|sandbox| sandbox.spec.template == *name))
}

impl Import {
    fn run(self, local: &Local) -> Result<(), CliError> {
        let source = if self.source.as_os_str() == "-" {
            ImportSource::Stream(Box::new(std::io::stdin()))
        } else {
            ImportSource::Path(self.source)
        };
        let imported = import(local, &self.name, source, self.replace)?;
        told("imported", &self.name, &imported, self.json);
        Ok(())
    }
}

/// Imports a template, and shows on a terminal how far it is.
fn import(
    local: &Local,
    name: &TemplateName,
    source: ImportSource<'_>,
    replace: bool,
) -> Result<Imported, CliError> {
    let busy = |name: &TemplateName| in_use(local, name);
    let on_terminal = std::io::stderr().is_terminal();
    let mut progress = |progress: Progress| {
        if on_terminal {
            let percent = |total| format!(" ({}%)", progress.read_bytes * 100 / total);
            let share = progress.total_bytes.filter(|total| *total > 0).map(percent).unwrap_or_default();
            let read = ByteSize(progress.read_bytes);
            ui::status(&format!("{read}{share}, {} entries", progress.entries));
        }
    };
    let imported = local.templates.import(ImportRequest {
        name: name.clone(),
        source,
        replace: if replace { Replace::Unless(&busy) } else { Replace::Never },
        limits: ImportLimits::default(),
        progress: &mut progress,
    });
    if on_terminal {
        ui::status("");
    }
    imported.map_err(CliError::new)
}

/// Prints what there is now.
fn told(done: &str, name: &TemplateName, imported: &Imported, json: bool) {
    let manifest = &imported.template.manifest;
    if json {
        return ui::print_json(manifest);
    }
    let size = ByteSize(manifest.size_bytes);
    ui::print(&format!("{done} {name}: {} entries, {size}", manifest.entries));
    let skipped = imported.skipped;
    if skipped != Skipped::default() {
        ui::say(&format!(
            "left out: {} device nodes, {} sockets, {} mounted file systems",
            skipped.devices, skipped.sockets, skipped.mounts
        ));
    }
    ui::print(&format!("try it: warren run --template {name} -- ls /"));
}

impl Make {
    fn run(self, global: &Global) -> Result<(), CliError> {
        let client = global.client()?;
        let snapshot = super::snapshot::one(&client, &self.snapshot)?;
        let body = MakeTemplate { name: self.name.to_string() };
        let made = client.make_template(snapshot.as_str(), &body)?;
        ui::show(self.json, &made, |made| {
            ui::print(&format!("made {}: {}", made.name, ByteSize(made.size_bytes)));
            ui::print(&format!("try it: warren create --template {}", made.name));
        });
        Ok(())
    }
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

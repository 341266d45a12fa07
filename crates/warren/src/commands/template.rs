mod bootstrap;
mod build;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use warren_core::{ByteSize, TemplateName};
use warren_store::{ImportLimits, ImportRequest, ImportSource, Imported, Progress, Replace, Skipped};
use warren_wire::api::MakeTemplate;

use crate::cli::Global;
use crate::error::CliError;
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
    Ls(List),
    Rm(Remove),
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

/// List templates.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Remove a template that no sandbox uses.
#[derive(Debug, Args)]
pub(crate) struct Remove {
    name: TemplateName,
}

impl Template {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        match self {
            Self::Build(args) => args.run(global),
            Self::Import(args) => args.run(&Local::open(global)?),
            Self::Make(args) => args.run(global),
            Self::Ls(args) => args.run(&Local::open(global)?),
            Self::Rm(args) => args.run(&Local::open(global)?),
        }
    }
}

fn in_use(local: &Local, name: &TemplateName) -> bool {
    // If the sandboxes cannot be listed, none may be taken for unused.
    local.list().map_or(true, |found| found.iter().any(|sandbox| sandbox.spec.template == *name))
}

impl Import {
    fn run(self, local: &Local) -> Result<ExitCode, CliError> {
        let busy = |name: &TemplateName| in_use(local, name);
        let mut bar = Bar::default();
        let mut progress = |progress: Progress| bar.show(progress);
        let from_stdin = self.source.as_os_str() == "-";
        let request = ImportRequest {
            name: self.name.clone(),
            source: if from_stdin {
                ImportSource::Stream(Box::new(std::io::stdin()))
            } else {
                ImportSource::Path(self.source)
            },
            replace: if self.replace { Replace::Unless(&busy) } else { Replace::Never },
            limits: ImportLimits::default(),
            progress: &mut progress,
        };
        let imported = local.templates.import(request);
        bar.clear();
        let imported = imported.map_err(CliError::new)?;
        told("imported", &self.name, &imported, self.json);
        Ok(ExitCode::SUCCESS)
    }
}

/// Says what there is now.
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
    fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let client = global.client()?;
        let snapshot = super::snapshot::one(&client, &self.snapshot)?;
        let body = MakeTemplate { name: self.name.to_string() };
        let made = client.make_template(snapshot.as_str(), &body)?;
        if self.json {
            ui::print_json(&made);
        } else {
            ui::print(&format!("made {}: {}", made.name, ByteSize(made.size_bytes)));
            ui::print(&format!("try it: warren create --template {}", made.name));
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl List {
    fn run(self, local: &Local) -> Result<ExitCode, CliError> {
        let listing = local.templates.list().map_err(CliError::new)?;
        let mut templates = vec![local.templates.host().map_err(CliError::new)?];
        templates.extend(listing.templates);
        for error in &listing.damaged {
            ui::complain(&format!("{error}"));
        }
        if self.json {
            ui::print_json(&templates.iter().map(|template| &template.manifest).collect::<Vec<_>>());
            return Ok(ExitCode::SUCCESS);
        }
        let rows: Vec<[String; 4]> = templates.iter().map(row).collect();
        ui::print_table(["TEMPLATE", "SIZE", "USER", "COMMAND"], &rows);
        Ok(ExitCode::SUCCESS)
    }
}

fn row(template: &warren_store::Template) -> [String; 4] {
    let manifest = &template.manifest;
    let size = ByteSize(manifest.size_bytes).to_string();
    [template.name.to_string(), size, manifest.config.user.clone(), manifest.config.command.join(" ")]
}

impl Remove {
    fn run(self, local: &Local) -> Result<ExitCode, CliError> {
        local.templates.remove(&self.name, &|name| in_use(local, name)).map_err(CliError::new)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// How far an import is, on a terminal.
#[derive(Debug, Default)]
struct Bar {
    shown: bool,
}

impl Bar {
    fn show(&mut self, progress: Progress) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        self.shown = true;
        let read = ByteSize(progress.read_bytes);
        let share =
            progress.total_bytes.filter(|total| *total > 0).map(|total| progress.read_bytes * 100 / total);
        let share = share.map_or(String::new(), |share| format!(" ({share}%)"));
        ui::status(&format!("{read}{share}, {} entries", progress.entries));
    }

    fn clear(&self) {
        if self.shown {
            ui::status("");
        }
    }
}

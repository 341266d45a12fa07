//! Writes states to files, and reads them again.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;
use warren_core::TemplateName;
use warren_wire::api::TakeSnapshot;
use warren_wire::client::{Client, ExportQuery, ImportQuery};

use crate::error::CliError;
use crate::global::Global;
use crate::interrupt::{self, Unfinished};
use crate::travel::point::{self, Point};
use crate::travel::present::short;
use crate::ui::{self, Progress};
use crate::word::word;

const EXPORT_EXAMPLES: &str = "\
Examples:
  warren export \"$id\":green -o green.tar
  warren export \"$id\" --since \"$id\":green --path /home/user -o work.patch && git apply work.patch
  warren export \"$id\" --format history -o all.history && warren --url http://other:7777 import all.history
  warren export \"$id\" -o - | tar t";

/// Write the files of a state, or a whole history, to a file.
///
/// `tar` has all files, with owners, times, links and attributes. `patch` has what changed since
/// another state, as `git apply` takes it in the directory of --path, without what .gitignore files
/// name. `history` has the snapshot with all that it comes from,
/// for `warren import` on any machine. A sandbox that is named is captured first.
#[derive(Debug, Args)]
#[command(after_long_help = EXPORT_EXAMPLES)]
pub(crate) struct Export {
    /// A snapshot (its id, its name or SBX:NAME), or a sandbox as it is now
    #[arg(value_name = "SNAP|SBX")]
    what: String,
    /// The file to write; `-` is standard output
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// The format [default: patch for *.patch and *.diff, history for *.history, else tar]
    #[arg(long, short, value_name = "FORMAT")]
    format: Option<Format>,
    /// The state that a patch starts from [default: the snapshot's parent]
    #[arg(long, value_name = "SNAP|SBX")]
    since: Option<String>,
    /// Only what is below this directory; paths of a patch are relative to it
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Leave out of a patch what matches this, as a line of .gitignore in --path; may be repeated
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Keep in a patch what the .gitignore files of the state name
    #[arg(long)]
    no_gitignore: bool,
}

/// The form in which a state is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Format {
    Tar,
    Patch,
    History,
}

impl Format {
    fn of_name(name: &Path) -> Self {
        match name.extension().and_then(|extension| extension.to_str()) {
            Some("patch" | "diff") => Self::Patch,
            Some("history") => Self::History,
            _ => Self::Tar,
        }
    }
}

impl Export {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let to_stdout = self.output.as_os_str() == "-";
        if to_stdout && io::stdout().is_terminal() {
            return Err(CliError::new("an archive is not written to a terminal")
                .hint("name a file with -o, or pipe it into another program"));
        }
        let format = self.format.unwrap_or_else(|| Format::of_name(&self.output));
        let of_patches = [
            ("--since", self.since.is_some()),
            ("--exclude", !self.exclude.is_empty()),
            ("--no-gitignore", self.no_gitignore),
        ];
        if let Some((flag, _)) = of_patches.iter().find(|(_, given)| *given && format != Format::Patch) {
            return Err(CliError::new(format!("{flag} is only for patches")).hint("add --format patch"));
        }
        interrupt::listen().map_err(CliError::new)?;
        let client = global.client()?;
        let since = match &self.since {
            Some(word) => {
                let context = point::sandbox_in(&client, &self.what)?;
                Some(point::point(&client, word, context.as_ref())?.as_str().to_owned())
            }
            None => None,
        };
        let snapshot = captured(&client, &self.what)?;
        let since = match since {
            None if format == Format::Patch => Some(parent(&client, &snapshot)?),
            since => since,
        };
        let wanted = ExportQuery {
            format: Some(word(&format)),
            path: self.path.clone(),
            since,
            leave_ignored: format == Format::Patch && !self.no_gitignore,
            exclude: self.exclude.clone(),
            size: !to_stdout && Progress::is_seen(),
        };
        let mut exported = client.export(&snapshot, &wanted)?;
        if to_stdout {
            io::copy(&mut exported.content, &mut io::stdout()).map_err(CliError::output)?;
        } else {
            keep(&mut exported.content, exported.size, &self.output)?;
        }
        Ok(())
    }
}

/// The state that a patch starts from if none is named.
fn parent(client: &Client, snapshot: &str) -> Result<String, CliError> {
    client.snapshot(snapshot)?.parent_id.ok_or_else(|| {
        CliError::new(format!("{} has no parent to be compared with", short(snapshot)))
            .hint("--since names the state that the patch starts from")
    })
}

/// The snapshot that a word means; of a sandbox, one that is taken now.
fn captured(client: &Client, word: &str) -> Result<String, CliError> {
    match point::point(client, word, None)? {
        Point::Snapshot(id) => Ok(id.to_string()),
        Point::Sandbox(id) => {
            let take = || client.take_snapshot(id.as_str(), &TakeSnapshot::default());
            let taken = ui::waiting("capturing", take)?;
            ui::say(&format!("captured {id} as {}", short(&taken.snapshot_id)));
            Ok(taken.snapshot_id)
        }
    }
}

/// Writes a file whole or not at all.
fn keep(content: &mut dyn Read, size: Option<u64>, target: &Path) -> Result<(), CliError> {
    let mut name = target.file_name().unwrap_or_default().to_os_string();
    if target.is_dir() || name.is_empty() {
        return Err(CliError::new(format!("{} is a directory", target.display())).hint("name a file in it"));
    }
    name.push(format!(".part-{}", std::process::id()));
    let part = target.with_file_name(name);
    let undone = part.clone();
    let create = || File::options().write(true).create_new(true).open(&part);
    let (file, _unfinished) = Unfinished::begin(create, move || drop(fs::remove_file(undone)))
        .map_err(|error| CliError::at(&part, error))?;
    let written = fill(content, size, file, target)
        .and_then(|()| fs::rename(&part, target).map_err(|error| CliError::at(target, error)));
    if written.is_err() {
        drop(fs::remove_file(&part));
    }
    written
}

fn fill(content: &mut dyn Read, size: Option<u64>, mut file: File, target: &Path) -> Result<(), CliError> {
    let progress = Progress::of(size);
    let name = target.to_string_lossy();
    let mut watched = progress.watch(content, &name);
    io::copy(&mut watched, &mut file)
        .and_then(|_| file.flush())
        .and_then(|()| file.sync_all())
        .map_err(|error| CliError::at(target, error))
}

const IMPORT_EXAMPLES: &str = "\
Examples:
  warren import all.history
  warren import work.tar --name base && warren create --from base
  warren export \"$id\" --path /srv -o - | warren --url http://other:7777 import -";

/// Make snapshots of an archive, and print their ids.
///
/// The archive is what `warren export` wrote as `history`, or a tar file, whose files are put on
/// top of a template. It is told by its content. `warren create --from` and `warren fork` start
/// from what was imported; the last id is that of the newest.
#[derive(Debug, Args)]
#[command(after_long_help = IMPORT_EXAMPLES)]
pub(crate) struct Import {
    /// The archive; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Its format [default: told by its content]
    #[arg(long, short, value_name = "FORMAT")]
    format: Option<ArchiveFormat>,
    /// The template below a tar file [default: host]
    #[arg(long, value_name = "NAME")]
    template: Option<TemplateName>,
    /// A name for the newest snapshot
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The form of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ArchiveFormat {
    Tar,
    History,
}

impl Import {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        interrupt::listen().map_err(CliError::new)?;
        let client = global.client()?;
        let (mut content, size): (Box<dyn Read>, Option<u64>) = if self.file.as_os_str() == "-" {
            (Box::new(io::stdin()), None)
        } else {
            let file = File::open(&self.file).map_err(|error| CliError::at(&self.file, error))?;
            let metadata = file.metadata().map_err(|error| CliError::at(&self.file, error))?;
            (Box::new(file), metadata.is_file().then_some(metadata.len()))
        };
        let first = beginning(&mut content).map_err(|error| CliError::at(&self.file, error))?;
        let format = match self.format.unwrap_or_else(|| told_by(&first)) {
            ArchiveFormat::Tar => Format::Tar,
            ArchiveFormat::History => Format::History,
        };
        let template = self.template.or_else(|| (format == Format::Tar).then(TemplateName::host));
        let wanted = ImportQuery {
            format: Some(word(&format)),
            template: template.map(|name| name.to_string()),
            name: self.name,
            size,
        };
        let progress = Progress::of(size);
        let mut whole = first.as_slice().chain(content);
        let imported = client.import(&wanted, &mut progress.watch(&mut whole, "sent"))?;
        drop(progress);
        ui::show(self.json, &imported.items, |snapshots| {
            snapshots.iter().for_each(|snapshot| ui::print(&snapshot.snapshot_id));
        });
        Ok(())
    }
}

/// Tar files are made of blocks.
const BLOCK: usize = 512;

/// The first blocks, which tell what an archive is.
fn beginning(content: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut first = Vec::new();
    content.take(2 * BLOCK as u64).read_to_end(&mut first)?;
    Ok(first)
}

/// A history is a tar file too. Its first member describes it, and begins in the second block.
fn told_by(first: &[u8]) -> ArchiveFormat {
    let is_history = first.starts_with(b"manifest.json\0")
        && first.get(BLOCK..).is_some_and(|content| content.starts_with(b"{\"format\":"));
    if is_history { ArchiveFormat::History } else { ArchiveFormat::Tar }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_told_by_the_name_of_the_file() {
        let formats = ["a.tar", "a.patch", "b.diff", "c.history", "-", "a"]
            .map(|name| Format::of_name(Path::new(name)));
        let (tar, patch) = (Format::Tar, Format::Patch);
        assert_eq!(formats, [tar, patch, patch, Format::History, tar, tar]);
    }

    #[test]
    fn an_archive_is_told_by_its_beginning() {
        let mut block = b"manifest.json".to_vec();
        block.resize(BLOCK, 0);
        assert_eq!(told_by(&block), ArchiveFormat::Tar, "another file of that name");
        block.extend_from_slice(b"{\"format\":1,");
        assert_eq!(told_by(&block), ArchiveFormat::History);
        assert_eq!(told_by(b"\x1f\x8b"), ArchiveFormat::Tar);
        assert_eq!(told_by(b""), ArchiveFormat::Tar);
    }

    #[test]
    fn a_file_is_written_whole_or_not_at_all() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("cut"))
            }
        }
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("out.tar");
        fs::write(&target, "before").unwrap();
        assert!(keep(&mut b"part".chain(Broken), None, &target).is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "before");
        keep(&mut b"whole".as_slice(), Some(5), &target).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "whole");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        assert!(keep(&mut b"".as_slice(), None, place.path()).is_err());
    }
}

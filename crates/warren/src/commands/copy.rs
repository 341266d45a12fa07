use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use clap::Args;
use tar::{Archive, EntryType};
use warren_core::SandboxWord;
use warren_wire::api::{FileInfo, FileType};
use warren_wire::client::{Client, WriteFile};

use crate::copying::pack;
use crate::copying::place::Place;
use crate::error::CliError;
use crate::global::Global;
use crate::interrupt;
use crate::ui::{self, Progress};
use crate::which;

const EXAMPLES: &str = "\
Examples:
  warren cp ./data.csv sbx…:/home/user/
  warren cp sbx…:/home/user/results ./results
  cat patch | warren cp - sbx…:/tmp/patch";

/// The depth of directories that are copied.
const DEEPEST: u32 = 64;

/// Copy files and directories into a sandbox, or out of it.
///
/// One side is ID:PATH, the other a path of this machine or - for standard input or output.
/// Permission bits are kept, except those that change who a program runs as. Symbolic links inside
/// a copied directory are left out, and named. On this machine a link is replaced and never written
/// through, unless it is the target that you named: one to a directory takes the source under its
/// name, and one to a file is followed, as `cp` does.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Copy {
    /// From where
    source: String,
    /// To where; a directory takes the source's name
    target: String,
    /// The user whose rights count inside: a name, uid or uid:gid of the sandbox
    #[arg(long, short, value_name = "USER")]
    user: Option<String>,
    /// Copy directories with all they hold, as happens anyway; so do -R and -a
    #[arg(long, short, short_aliases = ['R', 'a'], aliases = ["archive"])]
    recursive: bool,
}

impl Copy {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        interrupt::listen().map_err(CliError::new)?;
        let client = global.client()?;
        let copier = |sandbox: SandboxWord| {
            Ok::<_, CliError>(Copier {
                client: &client,
                sandbox: which::find(&client, &sandbox)?.to_string(),
                user: self.user.clone(),
                progress: Progress::new(),
            })
        };
        match (remote(&self.source), remote(&self.target)) {
            (None, Some((sandbox, path))) => copier(sandbox)?.upload(&self.source, &path),
            (Some((sandbox, path)), None) => copier(sandbox)?.download(&path, &self.target),
            (Some(_), Some(_)) | (None, None) => {
                Err(CliError::new("one side must be ID:PATH and the other a path of this machine"))
            }
        }
    }
}

/// `sbx…:/path`, with any word for the sandbox. A file of this machine that is called so goes
/// before a name.
fn remote(text: &str) -> Option<(SandboxWord, String)> {
    let (word, path) = text.split_once(':')?;
    let word = word.parse().ok()?;
    if matches!(word, SandboxWord::Name(_)) && Path::new(text).symlink_metadata().is_ok() {
        return None;
    }
    Some((word, if path.is_empty() { ".".to_owned() } else { path.to_owned() }))
}

struct Copier<'a> {
    client: &'a Client,
    sandbox: String,
    user: Option<String>,
    progress: Progress,
}

impl Copier<'_> {
    fn upload(&self, source: &str, target: &str) -> Result<(), CliError> {
        if source == "-" {
            let file = WriteFile { path: target.to_owned(), user: self.user.clone(), ..WriteFile::default() };
            return self.send(&mut io::stdin(), &file);
        }
        let source = Path::new(source);
        let metadata = fs::metadata(source).map_err(|error| CliError::at(source, error))?;
        let target = self.inside(target, source.file_name().map(|name| name.to_string_lossy().into_owned()));
        if metadata.is_dir() {
            self.upload_directory(source, &target)
        } else {
            self.upload_file(source, &target)
        }
    }

    /// A directory that exists takes what is copied under its own name.
    fn inside(&self, target: &str, name: Option<String>) -> String {
        let is_directory = target.ends_with('/')
            || self
                .client
                .stat(&self.sandbox, target, self.user.as_deref())
                .is_ok_and(|entry| entry.kind == FileType::Directory);
        match name {
            Some(name) if is_directory => format!("{}/{name}", target.trim_end_matches('/')),
            _ => target.to_owned(),
        }
    }

    /// A directory is sent as one archive, so that it is one entry of the sandbox's log and one
    /// undo.
    fn upload_directory(&self, source: &Path, target: &str) -> Result<(), CliError> {
        self.progress.expect(pack::size_of(source, DEEPEST));
        pack::sending(source, DEEPEST, |archive| {
            let mut counted = self.progress.watch(archive, target);
            self.client.unpack_files(&self.sandbox, target, self.user.as_deref(), &mut counted)?;
            Ok(())
        })
    }

    fn upload_file(&self, source: &Path, target: &str) -> Result<(), CliError> {
        let mut file = File::open(source).map_err(|error| CliError::at(source, error))?;
        let metadata = file.metadata().map_err(|error| CliError::at(source, error))?;
        let target = WriteFile {
            path: target.to_owned(),
            mode: Some(format!("{:04o}", metadata.permissions().mode() & 0o777)),
            user: self.user.clone(),
            // Files of the kernel claim to be empty.
            size: Some(metadata.len()).filter(|size| *size > 0),
        };
        self.progress.expect(metadata.len());
        self.send(&mut file, &target)
    }

    fn send(&self, content: &mut dyn Read, target: &WriteFile) -> Result<(), CliError> {
        let mut counted = self.progress.watch(content, &target.path);
        self.client.write_file(&self.sandbox, target, &mut counted)?;
        Ok(())
    }

    fn download(&self, source: &str, target: &str) -> Result<(), CliError> {
        let user = self.user.as_deref();
        if target == "-" {
            let mut content = self.client.read_file(&self.sandbox, source, user)?;
            return io::copy(&mut content, &mut io::stdout()).map(drop).map_err(CliError::output);
        }
        let entry = self.client.stat(&self.sandbox, source, user)?;
        let target = PathBuf::from(target);
        if target.is_dir() {
            let name = plain_name(&entry.path)?;
            let place = Place::open(&target).map_err(|error| CliError::at(&target, error))?;
            return match entry.kind {
                FileType::Directory => {
                    let below =
                        place.below(&name).map_err(|error| CliError::at(&target.join(&name), error))?;
                    self.download_directory(&entry, &below, &target.join(&name))
                }
                _ => {
                    self.progress.expect(entry.size_bytes);
                    self.fetch(&entry, source, (&place, &name, &target.join(&name)))
                }
            };
        }
        if entry.kind != FileType::Directory {
            self.progress.expect(entry.size_bytes);
            return self.fetch_named(&entry, source, &target);
        }
        fs::create_dir_all(&target).map_err(|error| CliError::at(&target, error))?;
        let place = Place::open(&target).map_err(|error| CliError::at(&target, error))?;
        self.download_directory(&entry, &place, &target)
    }

    /// A directory comes as one archive. The sandbox chose its names.
    fn download_directory(&self, top: &FileInfo, place: &Place, target: &Path) -> Result<(), CliError> {
        let mut content = self.client.pack_files(&self.sandbox, &top.path, self.user.as_deref())?;
        let mut archive = Archive::new(self.progress.watch(&mut content, &top.path));
        for entry in archive.entries().map_err(CliError::new)? {
            let mut entry = entry.map_err(CliError::new)?;
            let path = entry.path().map_err(CliError::new)?.into_owned();
            let name = relative(&path)?;
            let failed = |error| CliError::at(&target.join(name), error);
            match entry.header().entry_type() {
                EntryType::Directory => place.below(name).map(drop).map_err(failed)?,
                EntryType::Regular => {
                    let mode = entry.header().mode().map_err(failed)? & 0o777;
                    place.put(name, mode, &mut entry).map_err(failed)?;
                }
                _ => ui::say(&format!("warren: left out, neither file nor directory: {}", path.display())),
            }
        }
        Ok(())
    }

    /// Puts a file where the sandbox's names lead.
    fn fetch(
        &self,
        entry: &FileInfo,
        source: &str,
        (place, name, shown): (&Place, &Path, &Path),
    ) -> Result<(), CliError> {
        let mut content = self.client.read_file(&self.sandbox, source, self.user.as_deref())?;
        let mut counted = self.progress.watch(&mut content, source);
        place.put(name, mode(entry), &mut counted).map_err(|error| CliError::at(shown, error))
    }

    /// Puts a file exactly where the user said: a link there is the user's own, and so is a device.
    fn fetch_named(&self, entry: &FileInfo, source: &str, target: &Path) -> Result<(), CliError> {
        let is_plain = match fs::symlink_metadata(target) {
            Ok(found) => found.is_file(),
            Err(_) => true,
        };
        if is_plain && let Some(name) = target.file_name().map(Path::new) {
            let above = target.parent().unwrap_or_else(|| Path::new(""));
            let place = Place::open(above).map_err(|error| CliError::at(above, error))?;
            return self.fetch(entry, source, (&place, name, target));
        }
        let mut content = self.client.read_file(&self.sandbox, source, self.user.as_deref())?;
        let is_pipe = fs::metadata(target).is_ok_and(|found| {
            let kind = found.file_type();
            kind.is_fifo() || kind.is_char_device() || kind.is_block_device()
        });
        let mut options = File::options();
        let mut file = options
            .write(true)
            .create(!is_pipe)
            .truncate(!is_pipe)
            .mode(mode(entry))
            .open(target)
            .map_err(|error| CliError::at(target, error))?;
        let mut counted = self.progress.watch(&mut content, source);
        io::copy(&mut counted, &mut file)
            .and_then(|_| file.flush())
            .map_err(|error| CliError::at(target, error))
    }
}

/// The permissions of a file from a sandbox, without bits that change who a program runs as.
fn mode(entry: &FileInfo) -> u32 {
    u32::from_str_radix(&entry.mode, 8).unwrap_or(0o644) & 0o777
}

/// A path below a directory, as an archive of a sandbox has it: plain names and nothing else.
fn relative(path: &Path) -> Result<&Path, CliError> {
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if plain && path.components().next().is_some() {
        return Ok(path);
    }
    let shown = path.to_string_lossy();
    Err(CliError::new(format!(
        "the sandbox names a file that cannot be copied: `{}`",
        shown.escape_default()
    )))
}

fn plain_name(path: &str) -> Result<PathBuf, CliError> {
    let name = Path::new(path).file_name();
    name.map(PathBuf::from).ok_or_else(|| CliError::new(format!("`{}` has no name", path.escape_default())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_a_sandbox_lead_nowhere_else() {
        assert!(relative(Path::new("a/b")).is_ok());
        for path in ["/home/user", "a/../x", "/etc/passwd", "../x", ""] {
            assert!(relative(Path::new(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn a_side_is_remote_if_it_begins_with_an_id() {
        assert!(remote("sbxaaaaaaaaaaaaaaaaaaaaaaaaaa:/x").is_some());
        for text in ["./a:b", "/x", "-", "sbx:/x"] {
            assert!(remote(text).is_none(), "{text}");
        }
    }
}

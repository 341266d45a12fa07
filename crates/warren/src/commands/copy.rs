mod pack;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use rustix::fs::OFlags;
use warren_core::SandboxId;
use warren_wire::api::{FileInfo, FileType};
use warren_wire::client::{Client, WriteFile};

use crate::cli::Global;
use crate::error::CliError;
use crate::ui::{self, Progress};

const EXAMPLES: &str = "\
Examples:
  warren cp ./data.csv sbx…:/home/user/
  warren cp sbx…:/home/user/results ./results
  cat patch | warren cp - sbx…:/tmp/patch";

/// Deepest directory that is copied.
const DEEPEST: u32 = 64;

/// Copy files and directories into a sandbox, or out of it.
///
/// One side is ID:PATH, the other a path of this machine or - for standard input or output. Permission bits are kept. Symbolic
/// links are not followed inside a copied directory; they are left out, and said.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Copy {
    /// From where
    source: String,
    /// To where; a directory takes the source's name
    target: String,
    /// Whose rights count inside: a name, uid or uid:gid of the sandbox
    #[arg(long, short, value_name = "USER")]
    user: Option<String>,
}

impl Copy {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let client = global.client()?;
        let copier = |sandbox: SandboxId| Copier {
            client: &client,
            sandbox: sandbox.to_string(),
            user: self.user.clone(),
            progress: Progress::new(),
        };
        match (remote(&self.source), remote(&self.target)) {
            (None, Some((sandbox, path))) => copier(sandbox).upload(&self.source, &path)?,
            (Some((sandbox, path)), None) => copier(sandbox).download(&path, &self.target)?,
            (Some(_), Some(_)) | (None, None) => {
                return Err(CliError::new("one side must be ID:PATH and the other a path of this machine"));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// `sbx…:/path`.
fn remote(text: &str) -> Option<(SandboxId, String)> {
    let (id, path) = text.split_once(':')?;
    Some((id.parse().ok()?, if path.is_empty() { ".".to_owned() } else { path.to_owned() }))
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
        let metadata = fs::metadata(source).map_err(|error| named(source, error))?;
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

    /// A directory is sent as one archive, so that it is one entry of the sandbox's log and one undo.
    fn upload_directory(&self, source: &Path, target: &str) -> Result<(), CliError> {
        pack::sending(source, DEEPEST, |archive| {
            let mut counted = self.progress.watch(archive, target);
            self.client.unpack_files(&self.sandbox, target, self.user.as_deref(), &mut counted)?;
            Ok(())
        })
    }

    fn upload_file(&self, source: &Path, target: &str) -> Result<(), CliError> {
        let mut file = File::open(source).map_err(|error| named(source, error))?;
        let metadata = file.metadata().map_err(|error| named(source, error))?;
        let target = WriteFile {
            path: target.to_owned(),
            mode: Some(format!("{:04o}", metadata.permissions().mode() & 0o777)),
            user: self.user.clone(),
            // Files of the kernel claim to be empty.
            size: Some(metadata.len()).filter(|size| *size > 0),
        };
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
        let mut target = PathBuf::from(target);
        if target.is_dir() {
            target.push(plain_name(&entry.path)?);
        }
        if entry.kind != FileType::Directory {
            return self.fetch(&entry, source, &target);
        }
        self.download_directory(&entry, &target)
    }

    fn download_directory(&self, top: &FileInfo, target: &Path) -> Result<(), CliError> {
        fs::create_dir_all(target).map_err(|error| named(target, error))?;
        let list = self.client.list_files(&self.sandbox, &top.path, DEEPEST, self.user.as_deref())?;
        if list.truncated {
            return Err(CliError::new(format!("{} has more entries than one copy takes", top.path))
                .hint("copy its parts, or pack it inside: warren exec ID -- tar c … | tar x"));
        }
        for entry in &list.items {
            let target = target.join(relative(&top.path, &entry.path)?);
            match entry.kind {
                FileType::Directory => fs::create_dir_all(&target).map_err(|error| named(&target, error))?,
                FileType::File => self.fetch(entry, &entry.path, &target)?,
                _ => ui::say(&format!("warren: left out, neither file nor directory: {}", entry.path)),
            }
        }
        Ok(())
    }

    /// A link that is in the way is never followed.
    fn fetch(&self, entry: &FileInfo, source: &str, target: &Path) -> Result<(), CliError> {
        let mode = u32::from_str_radix(&entry.mode, 8).unwrap_or(0o644) & 0o777;
        let mut content = self.client.read_file(&self.sandbox, source, self.user.as_deref())?;
        let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(true).mode(mode).custom_flags(flags);
        let mut file = options.open(target).map_err(|error| named(target, error))?;
        let mut counted = self.progress.watch(&mut content, source);
        io::copy(&mut counted, &mut file).and_then(|_| file.flush()).map_err(|error| named(target, error))
    }
}

/// The part of a path from a sandbox below a directory: plain names and nothing else.
fn relative(top: &str, path: &str) -> Result<PathBuf, CliError> {
    let rest = Path::new(path).strip_prefix(top).unwrap_or_else(|_| Path::new(path));
    if rest.components().all(|part| matches!(part, Component::Normal(_)))
        && rest.components().next().is_some()
    {
        return Ok(rest.to_path_buf());
    }
    Err(CliError::new(format!("the sandbox names a file that cannot be copied: `{}`", path.escape_default())))
}

fn plain_name(path: &str) -> Result<PathBuf, CliError> {
    let name = Path::new(path).file_name();
    name.map(PathBuf::from).ok_or_else(|| CliError::new(format!("`{}` has no name", path.escape_default())))
}

fn named(path: &Path, error: io::Error) -> CliError {
    CliError::new(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_a_sandbox_lead_nowhere_else() {
        assert_eq!(relative("/home/user", "/home/user/a/b").unwrap(), PathBuf::from("a/b"));
        for path in ["/home/user", "/home/user/../x", "/etc/passwd", "../x", ""] {
            assert!(relative("/home/user", path).is_err(), "{path}");
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

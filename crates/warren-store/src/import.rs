//! Makes a template of a directory, an archive or an image:
//! examine → extract into staging → complete → publish.

pub(crate) mod archive;
mod directory;
pub(crate) mod error;
pub(crate) mod extract;
mod image;
pub(crate) mod limits;
mod pull;
pub(crate) mod stream;

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::SystemTime;

use rustix::fs::OFlags;
use warren_core::ImageSource;

pub(crate) use error::ImportError;

use crate::digest::Digest;
use crate::manifest::{Manifest, SourceKind, TemplateConfig};
use crate::name::TemplateName;
use crate::staging::{self, NamesLock, Staging};
use crate::template;
use crate::template::{HOSTNAME, HOSTS, Template};
use crate::tree::{Attributes, EntryError, TreePath, TreeTotals, TreeWriter};

use archive::{ArchiveError, EndMark};
use directory::DirectoryCopier;
use extract::{Extractor, Whiteouts};
use limits::{ImportLimits, Meter, Progress};
use stream::{Compression, Section};

/// Directories that every sandbox brings itself. A template has them empty, whatever the source
/// held there.
const PROVIDED: &[&str] = &["proc", "sys", "dev", "run"];
/// Directories that programs take for granted.
const EXPECTED: &[(&str, u32)] = &[("etc", 0o755), ("root", 0o700), ("tmp", 0o1777)];
const BLOCK: usize = 512;
const COPY_BUFFER: usize = 1 << 20;

/// An import: the source, the name of the template, and the bounds.
pub struct ImportRequest<'a> {
    /// The template's name.
    pub name: TemplateName,
    /// Where it comes from.
    pub source: ImportSource<'a>,
    /// The treatment of an earlier template of the name.
    pub replace: Replace<'a>,
    /// The bounds of the import.
    pub limits: ImportLimits,
    /// Told from time to time how far it is.
    pub progress: &'a mut dyn FnMut(Progress),
}

/// Where a template comes from.
pub enum ImportSource<'a> {
    /// A directory, or an archive or image, told by its content.
    Path(PathBuf),
    /// An archive or image that arrives as bytes. It is stored first, because images are not in
    /// reading order.
    Stream(Box<dyn Read + 'a>),
    /// An archive of a root file system that arrives as bytes, with what an image would say of its
    /// processes.
    Root(Box<dyn Read + 'a>, TemplateConfig),
    /// An image of a registry.
    Registry(&'a dyn ImageSource),
}

/// The treatment of an earlier template of the name.
#[derive(Clone, Copy)]
pub enum Replace<'a> {
    /// The import is refused.
    Never,
    /// It goes, unless this says that it is in use.
    Unless(&'a dyn Fn(&TemplateName) -> bool),
}

/// An import that succeeded.
#[derive(Debug)]
pub struct Imported {
    /// The new template.
    pub template: Template,
    /// Entries that were left out.
    pub skipped: Skipped,
}

/// Entries that were left out of a template, for the caller to tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Device nodes outside `/dev`.
    pub devices: u64,
    /// Sockets.
    pub sockets: u64,
    /// Other filesystems mounted within a source directory.
    pub mounts: u64,
}

impl std::fmt::Debug for ImportRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImportRequest")
            .field("name", &self.name)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ImportSource<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path(path) => f.debug_tuple("Path").field(path).finish(),
            Self::Stream(_) => f.write_str("Stream"),
            Self::Registry(image) => f.debug_tuple("Registry").field(image.address()).finish(),
            Self::Root(_, config) => f.debug_tuple("Root").field(config).finish(),
        }
    }
}

impl std::fmt::Debug for Replace<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Never => "Never",
            Self::Unless(_) => "Unless",
        })
    }
}

/// The content of a source, with its files in the tree.
pub(crate) struct Content {
    kind: SourceKind,
    digest: Digest,
    config: TemplateConfig,
}

/// An import under way.
pub(crate) struct Job<'a, 'm> {
    staging: &'a Staging,
    writer: TreeWriter,
    meter: &'a Meter<'m>,
    skipped: Skipped,
    store: (u64, u64),
}

pub(crate) fn run(
    templates: &Path,
    blobs: &Path,
    request: ImportRequest<'_>,
) -> Result<Imported, ImportError> {
    let ImportRequest { name, source, replace, limits, progress } = request;
    if name.is_host() {
        return Err(ImportError::Reserved);
    }
    check_replace(templates, &name, &replace)?;
    let failed = |source| ImportError::Stage { name: name.clone(), source };
    let staging = Staging::create(templates).map_err(failed)?;
    let (depth, root) = (limits.depth, staging.path().join("root"));
    let disk = fs::create_dir(&root).and_then(|()| File::open(templates)).map_err(ImportError::Spool)?;
    let identity = disk.metadata().map_err(ImportError::Spool)?;
    let meter = Meter::new(limits, disk, progress);
    meter.look_at_disk()?;
    let writer = TreeWriter::new(&root, depth).map_err(ImportError::entry(b"/"))?;
    let store = (identity.dev(), identity.ino());
    let mut job = Job { staging: &staging, writer, meter: &meter, skipped: Skipped::default(), store };
    let content = job.take(source, blobs)?;
    if meter.is_empty() {
        return Err(ImportError::Empty);
    }
    let skipped = job.skipped;
    let totals = complete(job.writer).map_err(ImportError::entry(b"/"))?;
    meter.report();
    manifest(&name, content, totals)
        .write(staging.path())
        .map_err(|source| ImportError::Describe { name: name.clone(), source })?;
    staging.sync().map_err(failed)?;
    publish(templates, staging, &name, &replace)?;
    let template =
        template::imported(templates, &name).map_err(|source| ImportError::ReadBack { name, source })?;
    Ok(Imported { template, skipped })
}

/// True if this is, or lies in, a directory that every sandbox brings itself.
pub(crate) fn is_provided(path: &TreePath) -> bool {
    path.top().is_some_and(|top| PROVIDED.iter().any(|provided| top == *provided))
}

impl<'m> Job<'_, 'm> {
    fn take(&mut self, source: ImportSource<'_>, blobs: &Path) -> Result<Content, ImportError> {
        match source {
            ImportSource::Stream(mut stream) => {
                let spooled = self.spool(&mut stream)?;
                self.archive(spooled)
            }
            ImportSource::Root(mut stream, config) => {
                config.check().map_err(|error| ImportError::Image(error::ImageError::Config(error)))?;
                let spooled = Section::whole(Rc::new(self.spool(&mut stream)?)).map_err(ImportError::Read)?;
                examine(&spooled)?;
                Ok(Content { config, ..self.rootfs(spooled)? })
            }
            ImportSource::Registry(image) => self.pull(image, blobs),
            ImportSource::Path(path) => {
                let opened = |source| ImportError::Open { path: path.clone(), source };
                // A pipe without a writer must not hold us up.
                let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
                let file = File::options().read(true).custom_flags(flags).open(&path).map_err(opened)?;
                let kind = file.metadata().map_err(opened)?.file_type();
                if kind.is_dir() {
                    self.directory(&file)
                } else if kind.is_file() {
                    self.archive(file)
                } else {
                    Err(ImportError::OddSource { path })
                }
            }
        }
    }

    fn directory(&mut self, source: &File) -> Result<Content, ImportError> {
        let copier = DirectoryCopier::new(&mut self.writer, self.meter, &mut self.skipped, self.store);
        let digest = copier.copy(source)?;
        Ok(Content { kind: SourceKind::Directory, digest, config: TemplateConfig::default() })
    }

    fn archive(&mut self, file: File) -> Result<Content, ImportError> {
        let source = Section::whole(Rc::new(file)).map_err(ImportError::Read)?;
        let compression = examine(&source)?;
        let first = extract::first_name(source.clone(), self.meter).map_err(|error| match error {
            ImportError::Archive(ArchiveError::Checksum { offset: 0 }) => ImportError::NotAnArchive,
            other => other,
        })?;
        if !first.is_some_and(|name| image::starts_with(&name)) {
            return self.rootfs(source);
        }
        let plain = match compression {
            Compression::None => source.clone(),
            _ => self.decompress(source.clone())?,
        };
        match image::open(&plain, self.meter)? {
            Some(image) => image.apply(&mut self.extractor()),
            None => self.rootfs(source),
        }
    }

    fn rootfs(&mut self, source: Section) -> Result<Content, ImportError> {
        self.meter.expect(source.length());
        let digest = self.extractor().archive(source, Whiteouts::Plain, EndMark::Required)?;
        Ok(Content { kind: SourceKind::Rootfs, digest, config: TemplateConfig::default() })
    }

    fn extractor(&mut self) -> Extractor<'_, 'm> {
        Extractor { writer: &mut self.writer, meter: self.meter, skipped: &mut self.skipped }
    }

    fn decompress(&self, source: Section) -> Result<Section, ImportError> {
        let mut tallied = stream::Tallied::new(source, self.meter);
        let file = self.spool(&mut stream::decode(&mut tallied)?)?;
        Section::whole(Rc::new(file)).map_err(ImportError::Spool)
    }

    /// Stores a stream in a nameless file: it goes with this process, whatever happens.
    fn spool(&self, stream: &mut dyn Read) -> Result<File, ImportError> {
        let flags = i32::try_from(OFlags::TMPFILE.bits()).unwrap_or(0);
        let mut file = File::options()
            .read(true)
            .write(true)
            .mode(0o600)
            .custom_flags(flags)
            .open(self.staging.path())
            .map_err(ImportError::Spool)?;
        let mut buffer = vec![0; COPY_BUFFER];
        let mut stored = 0_u64;
        loop {
            let read = match stream.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result.map_err(ImportError::reading)?,
            };
            if read == 0 {
                return Ok(file);
            }
            stored += read as u64;
            self.meter.check_size(stored)?;
            self.meter.look_at_disk()?;
            io::Write::write_all(&mut file, &buffer[..read]).map_err(ImportError::Spool)?;
        }
    }
}

fn examine(source: &Section) -> Result<Compression, ImportError> {
    let mut start = Vec::new();
    source.clone().take(BLOCK as u64).read_to_end(&mut start).map_err(ImportError::Read)?;
    let compression = Compression::of(&start)?;
    let plain = compression == Compression::None;
    let header: Option<&[u8; BLOCK]> = start.as_slice().try_into().ok();
    match header {
        Some(header) if plain && !archive::is_header(header) => Err(ImportError::NotAnArchive),
        None if plain => Err(ImportError::NotAnArchive),
        _ => Ok(compression),
    }
}

fn complete(mut writer: TreeWriter) -> Result<TreeTotals, EntryError> {
    for name in PROVIDED {
        writer.empty_directory(&TreePath::parse(name.as_bytes(), 1)?)?;
    }
    for (name, mode) in EXPECTED {
        writer.missing_directory(&TreePath::parse(name.as_bytes(), 1)?, Attributes::root(*mode))?;
    }
    // Images leave these to the machine that runs them, and a tree copied from a machine tells of
    // that machine.
    for (path, text) in [("etc/hostname", HOSTNAME), ("etc/hosts", HOSTS)] {
        writer.text_file(&TreePath::parse(path.as_bytes(), 2)?, text, &Attributes::root(0o644))?;
    }
    writer.finish()
}

fn manifest(name: &TemplateName, content: Content, totals: TreeTotals) -> Manifest {
    let created = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Manifest {
        format: Manifest::FORMAT,
        name: name.clone(),
        digest: content.digest,
        created_unix: created.map_or(0, |age| age.as_secs()),
        source: content.kind,
        size_bytes: totals.size_bytes,
        entries: totals.entries,
        config: content.config,
        base: None,
    }
}

fn check_replace(templates: &Path, name: &TemplateName, replace: &Replace<'_>) -> Result<(), ImportError> {
    match replace {
        _ if !templates.join(name.as_str()).exists() => Ok(()),
        Replace::Never => Err(ImportError::AlreadyExists { name: name.clone() }),
        Replace::Unless(in_use) if in_use(name) || template::is_stood_on(templates, name) => {
            Err(ImportError::InUse { name: name.clone() })
        }
        Replace::Unless(_) => Ok(()),
    }
}

/// Asks again, now that no name can change: another import may have been quicker.
fn publish(
    templates: &Path,
    staging: Staging,
    name: &TemplateName,
    replace: &Replace<'_>,
) -> Result<(), ImportError> {
    let failed = |source| ImportError::Stage { name: name.clone(), source };
    let target = templates.join(name.as_str());
    let names = NamesLock::acquire(templates).map_err(failed)?;
    check_replace(templates, name, replace)?;
    if !target.exists() {
        staging.publish(&target).map_err(failed)?;
        return staging::sync_names(templates).map_err(failed);
    }
    staging.exchange(&target).map_err(failed)?;
    staging::sync_names(templates).map_err(failed)?;
    // Removing the old tree may take long, and needs no lock.
    drop(names);
    drop(staging);
    Ok(())
}

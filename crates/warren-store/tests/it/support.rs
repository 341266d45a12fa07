//! A store of one's own, and archives written byte by byte so that nothing tidies them up on the
//! way.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use warren_store::{
    ImportError, ImportLimits, ImportRequest, ImportSource, Imported, Replace, Template, TemplateStore,
};

const BLOCK: usize = 512;

pub(crate) struct TestStore {
    pub(crate) data: tempfile::TempDir,
    pub(crate) store: TemplateStore,
}

impl TestStore {
    pub(crate) fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let store = TemplateStore::open(data.path()).unwrap();
        Self { data, store }
    }

    pub(crate) fn templates(&self) -> PathBuf {
        self.data.path().join("templates")
    }

    /// Names in the directory of templates, staging directories among them.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.templates()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name != ".lock");
        names.sort();
        names
    }

    pub(crate) fn import(&self, name: &str, bytes: &[u8]) -> Result<Imported, ImportError> {
        self.import_within(name, bytes, limits())
    }

    pub(crate) fn import_within(
        &self,
        name: &str,
        bytes: &[u8],
        limits: ImportLimits,
    ) -> Result<Imported, ImportError> {
        self.run(name, ImportSource::Stream(Box::new(bytes)), Replace::Never, limits)
    }

    pub(crate) fn import_path(&self, name: &str, path: &Path) -> Result<Imported, ImportError> {
        self.run(name, ImportSource::Path(path.to_owned()), Replace::Never, limits())
    }

    pub(crate) fn run(
        &self,
        name: &str,
        source: ImportSource<'_>,
        replace: Replace<'_>,
        limits: ImportLimits,
    ) -> Result<Imported, ImportError> {
        let name = name.parse().unwrap();
        self.store.import(ImportRequest { name, source, replace, limits, progress: &mut |_| {} })
    }
}

/// The defaults, without the reserve: a full build machine should not fail these tests.
pub(crate) fn limits() -> ImportLimits {
    ImportLimits { reserve_bytes: 0, reserve_percent: 0, ..ImportLimits::default() }
}

pub(crate) fn root(template: &Template) -> &Path {
    assert_eq!(template.trees.len(), 1);
    assert_eq!(template.trees[0].at, Path::new("/"));
    // Below what every sandbox is given.
    template.trees[0].lowers.last().unwrap()
}

#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) kind: u8,
    pub(crate) name: Vec<u8>,
    pub(crate) link: Vec<u8>,
    pub(crate) mode: u64,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) mtime: u64,
    /// The size that the header claims; the length of the data if none.
    pub(crate) size: Option<u64>,
}

pub(crate) fn entry(kind: u8, name: impl AsRef<[u8]>) -> Entry {
    Entry {
        kind,
        name: name.as_ref().to_owned(),
        link: Vec::new(),
        mode: 0o755,
        uid: 0,
        gid: 0,
        mtime: 1_700_000_000,
        size: None,
    }
}

/// A tar archive as it grows.
#[derive(Clone, Default)]
pub(crate) struct Tar(Vec<u8>);

impl Tar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn add(mut self, entry: &Entry, data: &[u8]) -> Self {
        let mut block = [0_u8; BLOCK];
        let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
        put(0, &entry.name[..entry.name.len().min(100)]);
        put(100, format!("{:07o}", entry.mode).as_bytes());
        put(108, &number(entry.uid, 8));
        put(116, &number(entry.gid, 8));
        put(124, &number(entry.size.unwrap_or(data.len() as u64), 12));
        put(136, format!("{:011o}", entry.mtime).as_bytes());
        put(148, b"        ");
        put(156, &[entry.kind]);
        put(157, &entry.link[..entry.link.len().min(100)]);
        put(257, b"ustar\x0000");
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&block);
        self.0.extend_from_slice(data);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
        self
    }

    pub(crate) fn file(self, name: &str, data: &[u8]) -> Self {
        self.add(&Entry { mode: 0o644, ..entry(b'0', name) }, data)
    }

    pub(crate) fn dir(self, name: &str) -> Self {
        self.add(&entry(b'5', name), b"")
    }

    pub(crate) fn symlink(self, name: &str, target: &str) -> Self {
        self.add(&Entry { link: target.into(), ..entry(b'2', name) }, b"")
    }

    pub(crate) fn hard_link(self, name: &str, target: &str) -> Self {
        self.add(&Entry { link: target.into(), ..entry(b'1', name) }, b"")
    }

    pub(crate) fn pax(self, records: &[(&str, &[u8])]) -> Self {
        let mut data = Vec::new();
        for (key, value) in records {
            let rest = key.len() + value.len() + 3;
            let mut length = rest + 1;
            while length != rest + length.to_string().len() {
                length += 1;
            }
            data.extend_from_slice(format!("{length} {key}=").as_bytes());
            data.extend_from_slice(value);
            data.push(b'\n');
        }
        self.add(&entry(b'x', "PaxHeader"), &data)
    }

    /// Without the end mark.
    pub(crate) fn open_end(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 2 * BLOCK, 0);
        self.0
    }
}

fn number(value: u64, width: usize) -> Vec<u8> {
    let octal = format!("{value:0width$o}", width = width - 1);
    if octal.len() < width {
        return octal.into_bytes();
    }
    let mut binary = vec![0; width - 8.min(width)];
    binary.extend_from_slice(&value.to_be_bytes());
    binary[0] |= 0x80;
    binary
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

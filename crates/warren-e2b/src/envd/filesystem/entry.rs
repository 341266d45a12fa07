use warren_wire::guest::{ByteString, EntryKind, FileEntry};

use crate::envd::files::metadata;
use crate::envd::path::{clean, name_of};
use crate::filesystem::{EntryInfo, FileType};
use crate::timestamp::Timestamp;

const SECOND_NS: i64 = 1_000_000_000;

/// A file as these clients know it. Of a link they want to know what it leads to.
pub(super) fn info(entry: FileEntry) -> EntryInfo {
    let path = clean(&entry.path.to_text());
    let (kind, bits) = match &entry.resolved {
        Some(resolved) => (resolved.kind, resolved.permissions),
        None if entry.kind == EntryKind::Symlink => (None, 0),
        None => (Some(entry.kind), entry.permissions),
    };
    EntryInfo {
        name: name_of(&path).to_owned(),
        r#type: file_type(kind).into(),
        size: i64::try_from(entry.size).unwrap_or(i64::MAX),
        mode: bits & 0o777,
        permissions: permissions(entry.kind, entry.permissions),
        owner: name_or_number(entry.owner.as_ref(), entry.uid),
        group: name_or_number(entry.group.as_ref(), entry.gid),
        modified_time: Some(Timestamp {
            seconds: entry.modified_ns.div_euclid(SECOND_NS),
            nanos: i32::try_from(entry.modified_ns.rem_euclid(SECOND_NS)).unwrap_or(0),
        }),
        symlink_target: entry.resolved.as_ref().map(|resolved| resolved.path.to_text().into_owned()),
        metadata: metadata::of(&entry),
        path,
    }
}

/// True for a link that leads nowhere.
pub(super) fn leads_nowhere(entry: &FileEntry) -> bool {
    entry.resolved.as_ref().is_some_and(|resolved| resolved.kind.is_none())
}

fn file_type(kind: Option<EntryKind>) -> FileType {
    match kind {
        Some(EntryKind::File) => FileType::File,
        Some(EntryKind::Directory) => FileType::Directory,
        Some(EntryKind::Symlink) => FileType::Symlink,
        Some(EntryKind::Fifo | EntryKind::Socket | EntryKind::CharDevice | EntryKind::BlockDevice) | None => {
            FileType::Unspecified
        }
    }
}

fn name_or_number(name: Option<&ByteString>, number: u32) -> String {
    name.map_or_else(|| number.to_string(), |name| name.to_text().into_owned())
}

/// Kind, special bits and rights in letters, as these clients know them: much like `ls`, but a link
/// is an `L`, and what `ls` writes into the rights stands before them.
fn permissions(kind: EntryKind, bits: u32) -> String {
    let mut text = String::from(match kind {
        EntryKind::File => "",
        EntryKind::Directory => "d",
        EntryKind::Symlink => "L",
        EntryKind::Fifo => "p",
        EntryKind::Socket => "S",
        EntryKind::CharDevice => "Dc",
        EntryKind::BlockDevice => "D",
    });
    for (bit, letter) in [(0o4000, 'u'), (0o2000, 'g'), (0o1000, 't')] {
        if bits & bit != 0 {
            text.push(letter);
        }
    }
    if text.is_empty() {
        text.push('-');
    }
    for (place, letter) in "rwxrwxrwx".chars().enumerate() {
        text.push(if bits & (0o400 >> place) != 0 { letter } else { '-' });
    }
    text
}

#[cfg(test)]
mod tests {
    use warren_wire::guest::{Attribute, Resolved};

    use super::*;

    fn entry(kind: EntryKind, permissions: u32) -> FileEntry {
        FileEntry {
            path: "/home/user/a".into(),
            kind,
            size: 7,
            permissions,
            uid: 1000,
            gid: 1001,
            modified_ns: -1,
            target: None,
            owner: Some("user".into()),
            group: None,
            inode: 1,
            links: 1,
            resolved: None,
            attributes: None,
        }
    }

    #[test]
    fn rights_are_written_in_letters() {
        for (kind, bits, text) in [
            (EntryKind::File, 0o644, "-rw-r--r--"),
            (EntryKind::Directory, 0o755, "drwxr-xr-x"),
            (EntryKind::Directory, 0o1777, "dtrwxrwxrwx"),
            (EntryKind::Symlink, 0o777, "Lrwxrwxrwx"),
            (EntryKind::File, 0o4755, "urwxr-xr-x"),
            (EntryKind::CharDevice, 0o600, "Dcrw-------"),
            (EntryKind::File, 0, "----------"),
        ] {
            assert_eq!(permissions(kind, bits), text);
        }
    }

    #[test]
    fn a_file_is_told_with_names_where_there_are_names() {
        let told = info(entry(EntryKind::File, 0o100_640));
        assert_eq!(
            (told.name.as_str(), told.path.as_str(), told.size, told.mode),
            ("a", "/home/user/a", 7, 0o640)
        );
        assert_eq!((told.owner.as_str(), told.group.as_str()), ("user", "1001"));
        assert_eq!(told.modified_time, Some(Timestamp { seconds: -1, nanos: 999_999_999 }));
        assert_eq!((told.r#type, told.symlink_target), (FileType::File.into(), None));
    }

    #[test]
    fn a_link_is_what_it_leads_to() {
        let resolved =
            Resolved { path: "/srv/b".into(), kind: Some(EntryKind::Directory), permissions: 0o750, size: 1 };
        let told = info(FileEntry { resolved: Some(resolved), ..entry(EntryKind::Symlink, 0o777) });
        assert_eq!((told.r#type, told.mode), (FileType::Directory.into(), 0o750));
        assert_eq!(
            (told.permissions.as_str(), told.symlink_target.as_deref()),
            ("Lrwxrwxrwx", Some("/srv/b"))
        );
        let nowhere = Resolved { path: "/home/user/a".into(), kind: None, permissions: 0, size: 0 };
        let broken = FileEntry { resolved: Some(nowhere), ..entry(EntryKind::Symlink, 0o777) };
        assert!(leads_nowhere(&broken));
        assert_eq!(info(broken).r#type, i32::from(FileType::Unspecified));
    }

    #[test]
    fn metadata_is_what_has_the_prefix_and_is_text() {
        let attribute =
            |name: &str, value: &[u8]| Attribute { name: name.into(), value: value.to_vec().into() };
        let attributes = vec![
            attribute("user.e2b.k", b"v"),
            attribute("user.other", b"v"),
            attribute("user.e2b.x", b"\xff"),
        ];
        let told = info(FileEntry { attributes: Some(attributes), ..entry(EntryKind::File, 0o644) });
        assert_eq!(told.metadata.into_iter().collect::<Vec<_>>(), [("k".to_owned(), "v".to_owned())]);
    }
}

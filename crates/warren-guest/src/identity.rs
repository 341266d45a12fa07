//! The user that a call acts as. The sandbox's own `/etc/passwd` and `/etc/group` are read
//! directly: the agent is static, and these files belong to the sandbox, so every line is treated
//! as hostile.
//!
//! A text that cannot be understood is refused. Nothing ever falls back to root: root is used only
//! when it is named, by name or as `0`, or when nobody is named at all.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use warren_wire::guest::{AgentConfig, ByteString, Failure, FailureCode};

/// Beyond this a file of accounts is cut: the agent's memory must not depend on it.
const ACCOUNTS_BYTES: usize = 4 * 1024 * 1024;

/// The kernel's own limit on supplementary groups.
const GROUPS_MAX: usize = 65_536;

/// A user with everything needed to act as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Supplementary groups; the primary one is among them where they come from the group file.
    pub(crate) groups: Vec<u32>,
    pub(crate) home: PathBuf,
    pub(crate) name: Option<String>,
    pub(crate) shell: PathBuf,
}

/// The user a call names, else the sandbox's default user, else root.
pub(crate) fn resolve(user: Option<&ByteString>, config: &AgentConfig) -> Result<Identity, Failure> {
    let named = user.or(config.user.as_ref());
    Accounts::load().identity(named.map(ByteString::as_bytes))
}

/// The user with this id.
pub(crate) fn of(uid: u32) -> Identity {
    Accounts::load().by_uid(uid)
}

/// True for users that may start programs as anybody: root, and the members of the group `sudo`.
pub(crate) fn may_act_as_others(identity: &Identity) -> bool {
    Accounts::load().may_act_as_others(identity)
}

/// The owner a call names, and the group if it names one.
pub(crate) fn resolve_owner(owner: &ByteString) -> Result<(u32, Option<u32>), Failure> {
    let accounts = Accounts::load();
    let (_, group) = split(owner.as_bytes())?;
    let identity = accounts.identity(Some(owner.as_bytes()))?;
    Ok((identity.uid, group.map(|_| identity.gid)))
}

/// The content of the sandbox's account files.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    passwd: Vec<u8>,
    group: Vec<u8>,
}

impl Accounts {
    /// Reads both files. One that is missing or unusable counts as empty, so that `0` still works
    /// in a sandbox that broke its own files; names are then unknown.
    pub(crate) fn load() -> Self {
        Self {
            passwd: read_accounts("/etc/passwd").unwrap_or_default(),
            group: read_accounts("/etc/group").unwrap_or_default(),
        }
    }

    /// Id and name of every user, in the file's order.
    pub(crate) fn user_names(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.users().map(|user| (user.uid, user.name))
    }

    /// Id and name of every group, in the file's order.
    pub(crate) fn group_names(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.groups().map(|group| (group.gid, group.name))
    }

    fn identity(&self, text: Option<&[u8]>) -> Result<Identity, Failure> {
        let Some(text) = text else { return Ok(self.by_uid(0)) };
        let (user, group) = split(text)?;
        let mut identity = match parse_subject(user)? {
            Subject::Id(uid) => self.by_uid(uid),
            Subject::Name(name) => self.by_name(name)?,
        };
        if let Some(group) = group {
            identity.gid = match parse_subject(group)? {
                Subject::Id(gid) => gid,
                Subject::Name(name) => self.gid_of(name)?,
            };
            identity.groups = Vec::new();
        }
        Ok(identity)
    }

    fn by_uid(&self, uid: u32) -> Identity {
        match self.users().find(|user| user.uid == uid) {
            Some(user) => self.identity_of(&user),
            None => Identity {
                uid,
                gid: uid,
                groups: Vec::new(),
                home: PathBuf::from("/"),
                name: None,
                shell: PathBuf::from("/bin/sh"),
            },
        }
    }

    fn by_name(&self, name: &[u8]) -> Result<Identity, Failure> {
        let user = self.users().find(|user| user.name == name);
        user.map(|user| self.identity_of(&user)).ok_or_else(|| invalid(name, "not in /etc/passwd"))
    }

    fn gid_of(&self, name: &[u8]) -> Result<u32, Failure> {
        let group = self.groups().find(|group| group.name == name);
        group.map(|group| group.gid).ok_or_else(|| unknown_group(name))
    }

    fn may_act_as_others(&self, identity: &Identity) -> bool {
        let in_group = || self.gid_of(b"sudo").is_ok_and(|gid| identity.groups.contains(&gid));
        identity.uid == 0 || (identity.name.is_some() && in_group())
    }

    fn identity_of(&self, user: &User<'_>) -> Identity {
        let mut groups = vec![user.gid];
        for group in self.groups().filter(|group| group.has_member(user.name)) {
            if groups.len() < GROUPS_MAX && !groups.contains(&group.gid) {
                groups.push(group.gid);
            }
        }
        Identity {
            uid: user.uid,
            gid: user.gid,
            groups,
            home: absolute_or(user.home, "/"),
            name: Some(String::from_utf8_lossy(user.name).into_owned()),
            shell: absolute_or(user.shell, "/bin/sh"),
        }
    }

    fn users(&self) -> impl Iterator<Item = User<'_>> {
        lines(&self.passwd).filter_map(User::parse)
    }

    fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        lines(&self.group).filter_map(Group::parse)
    }
}

/// A line of the passwd file.
struct User<'a> {
    name: &'a [u8],
    uid: u32,
    gid: u32,
    home: &'a [u8],
    shell: &'a [u8],
}

impl<'a> User<'a> {
    /// `None` for a line that is not `name:password:uid:gid[:comment[:home[:shell]]]`.
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        let uid = parse_id(fields.nth(1)?)?;
        let gid = parse_id(fields.next()?)?;
        let home = fields.nth(1).unwrap_or_default();
        let shell = fields.next().unwrap_or_default();
        Some(Self { name, uid, gid, home, shell })
    }
}

/// A line of the group file.
struct Group<'a> {
    name: &'a [u8],
    gid: u32,
    members: &'a [u8],
}

impl<'a> Group<'a> {
    /// `None` for a line that is not `name:password:gid[:member,member]`.
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        let gid = parse_id(fields.nth(1)?)?;
        Some(Self { name, gid, members: fields.next().unwrap_or_default() })
    }

    fn has_member(&self, user: &[u8]) -> bool {
        self.members.split(|byte| *byte == b',').any(|member| member == user)
    }
}

/// One half of `user:group`.
enum Subject<'a> {
    Id(u32),
    Name(&'a [u8]),
}

/// Digits alone are always a number, whatever names the sandbox's files hold.
fn parse_subject(text: &[u8]) -> Result<Subject<'_>, Failure> {
    if text.iter().all(u8::is_ascii_digit) {
        return parse_id(text).map(Subject::Id).ok_or_else(|| invalid(text, "the number is out of range"));
    }
    match text.first() {
        Some(b'+' | b'-') => Err(invalid(text, "it is neither a name nor a number")),
        _ => Ok(Subject::Name(text)),
    }
}

/// The two halves of `user` or `user:group`, neither of them empty.
fn split(text: &[u8]) -> Result<(&[u8], Option<&[u8]>), Failure> {
    let mut parts = text.split(|byte| *byte == b':');
    let (user, group, rest) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    if user.is_empty() || group.is_some_and(<[u8]>::is_empty) || rest.is_some() {
        return Err(invalid(text, "expected `user` or `user:group`"));
    }
    Ok((user, group))
}

/// A strict decimal id. The largest value is refused: to the kernel it means "leave as it is".
fn parse_id(text: &[u8]) -> Option<u32> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(text).ok().filter(|_| digits)?.parse::<u32>().ok()?;
    (number != u32::MAX).then_some(number)
}

fn lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    content.split(|byte| *byte == b'\n')
}

fn absolute_or(path: &[u8], otherwise: &str) -> PathBuf {
    if path.starts_with(b"/") && !path.contains(&0) {
        PathBuf::from(OsStr::from_bytes(path))
    } else {
        PathBuf::from(otherwise)
    }
}

/// The first [`ACCOUNTS_BYTES`] of a regular file, without the line that the limit may have cut.
fn read_accounts(path: &str) -> Result<Vec<u8>, Errno> {
    // Non-blocking: the sandbox may have put a FIFO here.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(Errno::INVAL);
    }
    let mut content = Vec::new();
    let mut chunk = [0; 8192];
    while content.len() < ACCOUNTS_BYTES {
        match rustix::io::read(&file, &mut chunk) {
            Ok(0) => return Ok(content),
            Ok(count) => content.extend_from_slice(&chunk[..count]),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    let whole_lines = content.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    content.truncate(whole_lines);
    Ok(content)
}

/// A user that is none, or that nobody here is.
fn invalid(text: &[u8], reason: &str) -> Failure {
    let message = format!("look up user `{}`: {reason}", String::from_utf8_lossy(text));
    Failure::unknown_user(message)
}

fn unknown_group(name: &[u8]) -> Failure {
    let message = format!("look up group `{}`: not in /etc/group", String::from_utf8_lossy(name));
    Failure::new(FailureCode::Invalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\n\
        broken\n:x:0:0::/:/bin/sh\nminus:x:-1:0::/:\nbig:x:4294967295:0::/:\nhex:x:0x0:0::/:\n\
        +0:x:0:0::/:/bin/sh\n777:x:0:0::/:/bin/sh\n\
        alice:x:1000:100:Alice:/home/alice:/bin/zsh\nbare:x:1001:1001\nrelative:x:1002:1002::here:sh\n";
    const GROUP: &str = "root:x:0:\nusers:x:100:\ndocker:x:999:bob,alice\naudio:x:29:alice\n\
        malformed:x:none:alice\nwheel:x:10:alicea,xalice\n";

    fn accounts() -> Accounts {
        Accounts { passwd: PASSWD.into(), group: GROUP.into() }
    }

    fn ids(text: &str) -> Result<(u32, u32, Vec<u32>), FailureCode> {
        let identity = accounts().identity(Some(text.as_bytes())).map_err(|failure| failure.code)?;
        Ok((identity.uid, identity.gid, identity.groups))
    }

    #[test]
    fn users_are_understood() {
        for (text, expected) in [
            ("root", (0, 0, vec![0])),
            ("0", (0, 0, vec![0])),
            ("alice", (1000, 100, vec![100, 999, 29])),
            ("1000", (1000, 100, vec![100, 999, 29])),
            ("alice:users", (1000, 100, vec![])),
            ("alice:0", (1000, 0, vec![])),
            ("1000:docker", (1000, 999, vec![])),
            ("777", (777, 777, vec![])),
            ("5:6", (5, 6, vec![])),
            ("00", (0, 0, vec![0])),
            ("4294967294", (4_294_967_294, 4_294_967_294, vec![])),
        ] {
            assert_eq!(ids(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_never_becomes_root() {
        for text in [
            "",
            ":",
            "0:",
            ":0",
            "0:0:0",
            "+0",
            "-1",
            "4294967295",
            "4294967296",
            "99999999999999999999",
            "0:4294967295",
            "0:-1",
            "0x0",
            " 0",
            "0 ",
            "0\n",
            "nobody-here",
            "minus",
            "big",
            "hex",
            "broken",
            "root:nosuch",
            "root:malformed",
        ] {
            assert_eq!(ids(text), Err(FailureCode::Invalid), "{text:?}");
        }
    }

    #[test]
    fn root_and_the_members_of_one_group_may_act_as_others() {
        let group = "users:x:100:\nsudo:x:27:alice\nwheel:x:10:bare\n";
        let accounts = Accounts { passwd: PASSWD.into(), group: group.into() };
        let may = |uid| accounts.may_act_as_others(&accounts.by_uid(uid));
        assert_eq!([0, 1000, 1001, 27, 4242].map(may), [true, true, false, false, false]);
        let without = Accounts::default();
        assert!(without.may_act_as_others(&without.by_uid(0)));
        assert!(!without.may_act_as_others(&accounts.by_uid(1000)), "there is no such group");
    }

    #[test]
    fn a_failure_names_the_unknown() {
        let failure = accounts().identity(Some(b"mallory")).unwrap_err();
        assert_eq!(failure.message, "look up user `mallory`: not in /etc/passwd");
    }

    #[test]
    fn homes_and_shells_are_absolute() {
        let home = |text: &str| {
            let identity = accounts().identity(Some(text.as_bytes())).unwrap();
            (identity.home, identity.shell)
        };
        assert_eq!(home("alice"), ("/home/alice".into(), "/bin/zsh".into()));
        assert_eq!(home("bare"), ("/".into(), "/bin/sh".into()));
        assert_eq!(home("relative"), ("/".into(), "/bin/sh".into()));
        assert_eq!(home("31337"), ("/".into(), "/bin/sh".into()));
    }

    #[test]
    fn nobody_named_is_root_even_without_files() {
        let identity = Accounts::default().identity(None).unwrap();
        assert_eq!((identity.uid, identity.gid, identity.name), (0, 0, None));
        assert_eq!(Accounts::default().identity(Some(b"root")).unwrap_err().code, FailureCode::Invalid);
    }

    #[test]
    fn the_default_user_of_the_sandbox_is_used() {
        let config = AgentConfig { user: Some("12345:6".into()), ..AgentConfig::default() };
        let identity = resolve(None, &config).unwrap();
        assert_eq!((identity.uid, identity.gid), (12345, 6));
        assert_eq!(resolve(Some(&"7:8".into()), &config).unwrap().uid, 7);
    }
}

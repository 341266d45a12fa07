use std::os::fd::AsFd as _;
use std::path::Path;

use super::HostError;
use super::copy::Copier;
use super::given::Given;
use super::packages::{self, APT_USER};
use super::survey::{self, Survey};
use crate::template::{HOSTNAME, HOSTS};
use crate::tree::{Attributes, EntryError, TreePath, TreeTotals, TreeWriter};

const MAX_DEPTH: usize = 32;
const USER: u32 = 1000;
const SHADOW_GROUP: u32 = 42;

const DIRECTORIES: &[(&str, u32)] = &[
    ("etc", 0o755),
    ("etc/skel", 0o755),
    ("etc/warren", 0o755),
    ("home", 0o755),
    ("root", 0o700),
    ("tmp", 0o1777),
    ("var", 0o755),
    ("var/backups", 0o755),
    ("var/cache", 0o755),
    ("var/lib", 0o755),
    ("var/log", 0o755),
    ("var/mail", 0o755),
    ("var/spool", 0o755),
    ("var/tmp", 0o1777),
    ("opt", 0o755),
    ("opt/warren", 0o755),
    ("opt/warren/bin", 0o755),
    ("srv", 0o755),
    ("mnt", 0o755),
    ("media", 0o755),
    ("proc", 0o755),
    ("dev", 0o755),
    ("sys", 0o755),
    ("run", 0o755),
    ("usr", 0o755),
];

const LINKS: &[(&str, &str)] = &[
    ("var/run", "/run"),
    ("var/lock", "/run/lock"),
    ("etc/mtab", "../proc/self/mounts"),
    // Put there when the sandbox starts. One of the machine's own would want rights by its mode,
    // and have none.
    ("opt/warren/bin/sudo", "/run/warren/sudo"),
];

const PYTHON: &str = "opt/warren/bin/python";

/// The groups that packages expect, with the numbers that they have everywhere.
const GROUP: &str = "root:x:0:
daemon:x:1:
bin:x:2:
sys:x:3:
adm:x:4:
tty:x:5:
disk:x:6:
lp:x:7:
mail:x:8:
news:x:9:
uucp:x:10:
man:x:12:
proxy:x:13:
kmem:x:15:
dialout:x:20:
fax:x:21:
voice:x:22:
cdrom:x:24:
floppy:x:25:
tape:x:26:
sudo:x:27:user
audio:x:29:
dip:x:30:
www-data:x:33:
backup:x:34:
operator:x:37:
list:x:38:
irc:x:39:
src:x:40:
shadow:x:42:
utmp:x:43:
video:x:44:
sasl:x:45:
plugdev:x:46:
staff:x:50:
games:x:60:
users:x:100:
user:x:1000:
nogroup:x:65534:
";

/// As [`GROUP`].
const SYSTEM_USERS: &str = "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
bin:x:2:2:bin:/bin:/usr/sbin/nologin
sys:x:3:3:sys:/dev:/usr/sbin/nologin
games:x:5:60:games:/usr/games:/usr/sbin/nologin
man:x:6:12:man:/var/cache/man:/usr/sbin/nologin
lp:x:7:7:lp:/var/spool/lpd:/usr/sbin/nologin
mail:x:8:8:mail:/var/mail:/usr/sbin/nologin
news:x:9:9:news:/var/spool/news:/usr/sbin/nologin
uucp:x:10:10:uucp:/var/spool/uucp:/usr/sbin/nologin
proxy:x:13:13:proxy:/bin:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
backup:x:34:34:backup:/var/backups:/usr/sbin/nologin
list:x:38:38:list:/var/list:/usr/sbin/nologin
irc:x:39:39:irc:/run/ircd:/usr/sbin/nologin
";

const NSSWITCH: &str = "passwd: files
group: files
shadow: files
hosts: files dns
networks: files
protocols: files
services: files
";

const PROFILE: &str = r#"PATH=$HOME/.local/bin:/opt/warren/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
if [ -n "$BASH_VERSION" ] && [ -r /etc/bash.bashrc ]; then . /etc/bash.bashrc; fi
"#;

const BASHRC: &str = r"case $- in *i*) ;; *) return ;; esac
PS1='\u@\h:\w\$ '
shopt -s checkwinsize
";

const USER_BASHRC: &str = r"case $- in *i*) ;; *) return ;; esac
alias ls='ls --color=auto'
alias ll='ls -l'
";

const USER_PROFILE: &str = r#"if [ -n "$BASH_VERSION" ] && [ -r "$HOME/.bashrc" ]; then . "$HOME/.bashrc"; fi
"#;

/// `npm install --global` without root's rights. Its programs are in `PATH`.
const USER_NPMRC: &str = "prefix=${HOME}/.local\n";

/// Writes the skeleton into `root`.
pub(super) fn write(
    root: &Path,
    machine: &Path,
    survey: &Survey,
    given: &Given,
) -> Result<TreeTotals, HostError> {
    let failed = |path: &str| {
        let path = path.to_owned();
        move |source| HostError::Write { path, source }
    };
    let mut writer = TreeWriter::new(root, MAX_DEPTH).map_err(failed("/"))?;
    for (path, mode) in DIRECTORIES {
        directory(&mut writer, path, Attributes::root(*mode)).map_err(failed(path))?;
    }
    for (path, mode) in [("home/user", 0o755), ("code", 0o777)] {
        directory(&mut writer, path, owned_by_user(mode)).map_err(failed(path))?;
    }
    let links = LINKS.iter().map(|(path, target)| (*path, target.as_bytes()));
    for (path, target) in links.chain(survey.links.iter().map(|(path, target)| (*path, target.as_slice()))) {
        link(&mut writer, path, target).map_err(failed(path))?;
    }
    if let Some(python) = survey.python {
        link(&mut writer, PYTHON, python.as_bytes()).map_err(failed(PYTHON))?;
    }
    let machine = survey::open(machine, machine)?;
    let mut copier = Copier::new(machine.as_fd(), &mut writer);
    for name in &survey.allowed {
        copier.copy(&format!("etc/{name}"))?;
    }
    packages::write(machine.as_fd(), &mut writer)?;
    // Ours come last: they win over anything of the machine.
    for (path, text) in files(survey).into_iter().chain(given.files()?) {
        file(&mut writer, path, &text, &Attributes::root(0o644)).map_err(failed(path))?;
    }
    let own = [
        ("home/user/.bashrc", USER_BASHRC),
        ("home/user/.profile", USER_PROFILE),
        ("home/user/.npmrc", USER_NPMRC),
    ];
    let shadow = Attributes { gid: SHADOW_GROUP, ..Attributes::root(0o640) };
    file(&mut writer, "etc/shadow", &shadow_of(&passwd(survey.shell)), &shadow)
        .map_err(failed("etc/shadow"))?;
    for (path, text) in own {
        file(&mut writer, path, text, &owned_by_user(0o644)).map_err(failed(path))?;
    }
    writer.finish().map_err(failed("/"))
}

fn files(survey: &Survey) -> [(&'static str, String); 11] {
    [
        ("etc/passwd", passwd(survey.shell)),
        ("etc/group", GROUP.to_owned()),
        ("etc/hosts", HOSTS.to_owned()),
        ("etc/hostname", HOSTNAME.to_owned()),
        ("etc/machine-id", String::new()),
        ("etc/nsswitch.conf", NSSWITCH.to_owned()),
        ("etc/shells", format!("/bin/sh\n{}\n", survey.shell)),
        ("etc/profile", PROFILE.to_owned()),
        ("etc/bash.bashrc", BASHRC.to_owned()),
        ("etc/skel/.bashrc", USER_BASHRC.to_owned()),
        ("etc/skel/.profile", USER_PROFILE.to_owned()),
    ]
}

fn passwd(shell: &str) -> String {
    format!(
        "root:x:0:0:root:/root:{shell}
{SYSTEM_USERS}_apt:x:{APT_USER}:65534::/nonexistent:/usr/sbin/nologin
user:x:{USER}:{USER}:user:/home/user:{shell}
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"
    )
}

/// Accounts that nobody can log in to by a password.
fn shadow_of(passwd: &str) -> String {
    passwd
        .lines()
        .filter_map(|line| line.split(':').next())
        .map(|name| format!("{name}:*:::::::\n"))
        .collect()
}

fn directory(writer: &mut TreeWriter, path: &str, attributes: Attributes) -> Result<(), EntryError> {
    writer.directory(&TreePath::parse(path.as_bytes(), MAX_DEPTH)?, attributes)
}

fn link(writer: &mut TreeWriter, path: &str, target: &[u8]) -> Result<(), EntryError> {
    writer.symlink(&TreePath::parse(path.as_bytes(), MAX_DEPTH)?, target, &Attributes::root(0o777))
}

fn file(writer: &mut TreeWriter, path: &str, text: &str, attributes: &Attributes) -> Result<(), EntryError> {
    writer.text_file(&TreePath::parse(path.as_bytes(), MAX_DEPTH)?, text, attributes)
}

fn owned_by_user(mode: u32) -> Attributes {
    Attributes { uid: USER, gid: USER, ..Attributes::root(mode) }
}

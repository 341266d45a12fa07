//! Looks for programs that manage the machine's network and would take sandboxes' links for their
//! own. The links would lose their addresses then, and nothing would work any more, without a word.
//!
//! systemd-networkd goes by the first file, in the order of names, that matches a link. Ours says
//! that it is to be left alone, and is written when the first network is opened; a file that comes
//! before it wins all the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use warren_core::Check;

use super::{ok, warning};
use crate::managers::NETWORKD;
use crate::place::{LINK_PREFIX, Place};

/// Where networkd looks. Of files with the same name the first is taken.
const DIRECTORIES: [&str; 4] = [
    "etc/systemd/network",
    "run/systemd/network",
    "usr/local/lib/systemd/network",
    "usr/lib/systemd/network",
];

/// Where udev has rules; NetworkManager leaves alone what they mark.
const RULES: [&str; 4] =
    ["etc/udev/rules.d", "run/udev/rules.d", "usr/local/lib/udev/rules.d", "usr/lib/udev/rules.d"];

pub(super) fn managers() -> Check {
    let root = Path::new("/");
    judge(root, is_running("systemd-networkd"), is_running("NetworkManager"))
}

fn judge(root: &Path, networkd: bool, network_manager: bool) -> Check {
    let name = "network managers";
    if networkd && let Some(path) = captor(root) {
        return warning(
            name,
            format!("systemd-networkd takes links of sandboxes for its own, by {}", path.display()),
            format!(
                "have its [Match] leave out Name={LINK_PREFIX}*, or rename it to come after {}; then networkctl reload",
                ours()
            ),
        );
    }
    // Where systemd runs, opening a network writes a rule that marks them.
    if network_manager && !root.join("run/systemd/system").is_dir() && !is_marked(root) {
        return warning(
            name,
            "NetworkManager may take links of sandboxes for its own: no rule of udev marks them",
            "put this into /etc/NetworkManager/conf.d/warren.conf and reload it: [keyfile] unmanaged-devices=interface-name:wrn*",
        );
    }
    match (networkd, network_manager) {
        (false, false) => ok(name, "none runs"),
        _ => ok(name, "links of sandboxes are left alone"),
    }
}

/// The name of the file that tells networkd about our links.
fn ours() -> &'static str {
    NETWORKD.rsplit('/').next().unwrap_or(NETWORKD)
}

/// By the name that the kernel has for a process, which is cut short.
fn is_running(program: &str) -> bool {
    let name = &program[..program.len().min(15)];
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| fs::read_to_string(entry.path().join("comm")).ok())
        .any(|found| found.trim_end() == name)
}

/// The file by which networkd would take a link of ours.
fn captor(root: &Path) -> Option<PathBuf> {
    let mut files: BTreeMap<String, PathBuf> = BTreeMap::new();
    // As if ours were there: opening a network writes it.
    let written = root.join(NETWORKD.trim_start_matches('/'));
    files.insert(ours().to_owned(), written.clone());
    for directory in DIRECTORIES.iter().rev() {
        for entry in fs::read_dir(root.join(directory)).into_iter().flatten().flatten() {
            if let Some(name) = entry.file_name().to_str().filter(|name| name.ends_with(".network")) {
                files.insert(name.to_owned(), entry.path());
            }
        }
    }
    for (name, path) in files {
        if path == written {
            return None;
        }
        let rule = Rule::read(root, &name, &path);
        if rule.matches() {
            return (!rule.unmanaged).then_some(path);
        }
    }
    None
}

/// The links that a file is for, as far as that can be told from the file alone.
#[derive(Debug, Default)]
struct Rule {
    names: Option<Vec<String>>,
    types: Option<Vec<String>>,
    kinds: Option<Vec<String>>,
    drivers: Option<Vec<String>>,
    /// It is for links that ours are never like.
    others: bool,
    unmanaged: bool,
}

impl Rule {
    /// With what was put beside it.
    fn read(root: &Path, name: &str, path: &Path) -> Self {
        let mut rule = Self::default();
        let mut beside = BTreeMap::new();
        for directory in DIRECTORIES.iter().rev() {
            let place = root.join(directory).join(format!("{name}.d"));
            for entry in fs::read_dir(place).into_iter().flatten().flatten() {
                if entry.path().extension().is_some_and(|ending| ending == "conf") {
                    beside.insert(entry.file_name(), entry.path());
                }
            }
        }
        for path in [path.to_owned()].into_iter().chain(beside.into_values()) {
            rule.take(&fs::read_to_string(path).unwrap_or_default());
        }
        rule
    }

    fn take(&mut self, text: &str) {
        let mut section = "";
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name;
                continue;
            }
            let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with(['#', ';'])) else {
                continue;
            };
            self.set(section, key.trim(), value.trim());
        }
    }

    fn set(&mut self, section: &str, key: &str, value: &str) {
        match (section, key) {
            ("Match", "Name") => add(&mut self.names, value),
            ("Match", "Type") => add(&mut self.types, value),
            ("Match", "Kind") => add(&mut self.kinds, value),
            ("Match", "Driver") => add(&mut self.drivers, value),
            (
                "Match",
                "MACAddress"
                | "PermanentMACAddress"
                | "Path"
                | "Property"
                | "SSID"
                | "BSSID"
                | "WLANInterfaceType",
            ) => self.others |= !value.is_empty(),
            ("Link", "Unmanaged") => self.unmanaged = ["yes", "true", "on", "1"].contains(&value),
            _ => {}
        }
    }

    /// True if it is for a link of ours. A file that names no links is for none.
    fn matches(&self) -> bool {
        let link = Place { block: 0, number: 1 }.link();
        let asked = [&self.names, &self.types, &self.kinds, &self.drivers];
        let is = [link.as_str(), "ether", "veth", "veth"];
        let pairs = || asked.into_iter().zip(is).filter_map(|(words, is)| Some((words.as_ref()?, is)));
        !self.others && pairs().next().is_some() && pairs().all(|(words, is)| is_among(words, is))
    }
}

/// An empty value takes back what was said before.
fn add(words: &mut Option<Vec<String>>, value: &str) {
    if value.is_empty() {
        *words = None;
    } else {
        words.get_or_insert_default().extend(value.split_whitespace().map(str::to_owned));
    }
}

/// A list of patterns, which a mark before the first one turns round.
fn is_among(words: &[String], name: &str) -> bool {
    let inverted = words.first().is_some_and(|word| word.starts_with('!'));
    let found = words.iter().any(|word| fits(word.trim_start_matches('!').as_bytes(), name.as_bytes()));
    found != inverted
}

/// A shell's pattern: `*`, `?`, and `[…]` with ranges.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=name.len()).any(|skipped| fits(rest, &name[skipped..])),
        ([b'?', rest @ ..], [_, left @ ..]) => fits(rest, left),
        ([b'[', rest @ ..], [first, left @ ..]) => match rest.iter().skip(1).position(|byte| *byte == b']') {
            Some(end) => is_in_set(&rest[..=end], *first) && fits(&rest[end + 2..], left),
            None => *first == b'[' && fits(rest, left),
        },
        ([byte, rest @ ..], [first, left @ ..]) => byte == first && fits(rest, left),
        _ => false,
    }
}

fn is_in_set(set: &[u8], byte: u8) -> bool {
    let (inverted, mut set) = match set {
        [b'!' | b'^', rest @ ..] => (true, rest),
        set => (false, set),
    };
    let mut found = false;
    while let [first, rest @ ..] = set {
        let (last, left) = match rest {
            [b'-', last, left @ ..] => (last, left),
            _ => (first, rest),
        };
        found |= (*first..=*last).contains(&byte);
        set = left;
    }
    found != inverted
}

/// True if a rule of udev, or NetworkManager's own settings, have it leave links like ours alone.
/// Its own package has such a rule for every veth link.
fn is_marked(root: &Path) -> bool {
    let texts = |directory: &str| {
        let entries = fs::read_dir(root.join(directory)).into_iter().flatten().flatten();
        entries.filter_map(|entry| fs::read_to_string(entry.path()).ok()).collect::<Vec<_>>()
    };
    let speaks = |line: &str| !line.trim_start().starts_with('#');
    let rules = RULES.iter().flat_map(|directory| texts(directory));
    let by_rule = rules.into_iter().any(|text| {
        text.lines()
            .filter(|line| speaks(line) && line.contains("NM_UNMANAGED"))
            .any(|line| line.contains("\"veth\"") || line.contains("\"wrn*\""))
    });
    let settings =
        ["etc/NetworkManager/conf.d", "run/NetworkManager/conf.d", "usr/lib/NetworkManager/conf.d"];
    let settings = settings.iter().flat_map(|directory| texts(directory));
    let settings =
        settings.chain(fs::read_to_string(root.join("etc/NetworkManager/NetworkManager.conf")).ok());
    by_rule
        || settings.into_iter().any(|text| {
            text.lines()
                .any(|line| speaks(line) && line.contains("unmanaged-devices") && line.contains("wrn*"))
        })
}

#[cfg(test)]
#[path = "managers_tests.rs"]
mod tests;

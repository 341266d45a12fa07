//! No circles among modules: modules in a circle can only be understood, moved and tested together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::lexer::Source;
use crate::tree::{complain, files, read};

/// Crates whose top-level modules form no circle.
const ACYCLIC: [&str; 14] = [
    "warren",
    "warren-bench",
    "warren-core",
    "warren-e2b",
    "warren-engine",
    "warren-face",
    "warren-guest",
    "warren-isolate",
    "warren-network",
    "warren-registry",
    "warren-server",
    "warren-store",
    "warren-testkit",
    "warren-wire",
];

/// A module, and each module that it uses with the files that do.
type Graph = BTreeMap<String, BTreeMap<String, BTreeSet<PathBuf>>>;

#[test]
fn no_modules_use_each_other_in_a_circle() {
    let mut complaints = Vec::new();
    for name in ACYCLIC {
        let graph = graph(&sources(name));
        for circle in circles(&graph) {
            complaints.push(format!("{name}: {}", circle.join(", ")));
            complaints.extend(edges_of(&graph, &circle).map(|edge| format!("    {edge}")));
        }
    }
    complain("modules of a crate must not use each other in a circle", &complaints);
}

/// The sources of a crate that are not tests, by their path below `src`.
fn sources(name: &str) -> Vec<(PathBuf, String)> {
    let place = Path::new("crates").join(name).join("src");
    let below = |path: &PathBuf| path.strip_prefix(&place).map(Path::to_owned).ok();
    let found: Vec<_> = files(&["rs"]).iter().filter_map(|path| Some((below(path)?, read(path)))).collect();
    assert!(!found.is_empty(), "there is no crate {name}");
    let is_test = |path: &Path| {
        let ends = path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests"));
        ends || path.components().any(|part| part.as_os_str() == "tests")
    };
    found
        .into_iter()
        .filter(|(path, _)| !is_test(path))
        .map(|(path, text)| (path, untested(&Source::of(&text).code)))
        .collect()
}

/// The code without its modules of tests, which are the last in a file.
fn untested(code: &str) -> String {
    let end = code.find("#[cfg(test)]\nmod tests {").unwrap_or(code.len());
    code[..end].to_owned()
}

fn graph(sources: &[(PathBuf, String)]) -> Graph {
    let modules: BTreeSet<String> = sources.iter().filter_map(|(path, _)| module(path)).collect();
    let root = sources.iter().find(|(path, _)| *path == *"lib.rs" || *path == *"main.rs");
    let exported = root.map(|(_, code)| exports(code, &modules)).unwrap_or_default();
    let mut graph = Graph::new();
    for (path, code) in sources {
        let Some(from) = module(path) else { continue };
        let uses = graph.entry(from.clone()).or_default();
        for name in used(code) {
            let to = if modules.contains(&name) { Some(&name) } else { exported.get(&name) };
            if let Some(to) = to.filter(|to| **to != from) {
                uses.entry(to.clone()).or_default().insert(path.clone());
            }
        }
    }
    graph
}

/// The top-level module that a file belongs to. The root itself is none.
fn module(path: &Path) -> Option<String> {
    let first = Path::new(path.components().next()?.as_os_str()).file_stem()?.to_str()?;
    (first != "lib" && first != "main").then(|| first.to_owned())
}

/// Names that the root exports, each with its module.
fn exports(root: &str, modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut exported = BTreeMap::new();
    for (at, _) in root.match_indices("use ") {
        let statement = root[at + 4..].split(';').next().unwrap_or_default();
        let statement = statement.trim().trim_start_matches("crate::").trim_start_matches("self::");
        let Some((module, names)) =
            statement.split_once("::").filter(|(module, _)| modules.contains(*module))
        else {
            continue;
        };
        let words = names.split(|char: char| !char.is_alphanumeric() && char != '_');
        exported
            .extend(words.filter(|word| !word.is_empty()).map(|word| (word.to_owned(), module.to_owned())));
    }
    exported
}

/// The first name of every path that begins at the crate's root.
fn used(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let own = !code[..at].ends_with(|char: char| char.is_alphanumeric() || char == '_' || char == '$');
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            _ if !own => {}
            Some(group) => names.extend(first_of_each(group)),
            None => names.extend(word(rest)),
        }
    }
    names
}

/// The first name of each path in a group of `use`, whose opening brace is behind.
fn first_of_each(group: &str) -> Vec<String> {
    let (mut names, mut depth, mut begins) = (Vec::new(), 1, true);
    for (at, char) in group.char_indices() {
        match char {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' => {}
            _ if char.is_whitespace() => continue,
            _ if begins && depth == 1 => names.extend(word(&group[at..])),
            _ => {}
        }
        if depth == 0 {
            break;
        }
        begins = depth == 1 && char == ',';
    }
    names
}

fn word(text: &str) -> Option<String> {
    let end = text.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

/// Groups of modules of which each leads to every other.
fn circles(graph: &Graph) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|from| (from, reachable(graph, from))).collect();
    let mut circles = BTreeSet::new();
    for (from, to) in &reached {
        let circle: Vec<String> = to
            .iter()
            .filter(|to| reached.get(**to).is_some_and(|back| back.contains(from)))
            .map(|to| (*to).clone())
            .collect();
        if !circle.is_empty() {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

fn reachable<'a>(graph: &'a Graph, from: &String) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut waiting: Vec<&String> = graph.get(from).into_iter().flat_map(BTreeMap::keys).collect();
    while let Some(next) = waiting.pop() {
        if found.insert(next) {
            waiting.extend(graph.get(next).into_iter().flat_map(BTreeMap::keys));
        }
    }
    found
}

/// The uses within a circle, with their files.
fn edges_of(graph: &Graph, circle: &[String]) -> impl Iterator<Item = String> {
    let inside = graph.iter().filter(|(from, _)| circle.contains(from));
    inside.flat_map(|(from, uses)| {
        uses.iter().filter(|(to, _)| circle.contains(to)).map(move |(to, files)| {
            let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
            format!("{from} → {to} ({})", files.join(", "))
        })
    })
}

#[test]
fn a_circle_is_found_with_the_edges_that_make_it() {
    let source = |path: &str, code: &str| (PathBuf::from(path), code.to_owned());
    let sources = [
        source("lib.rs", "mod a; mod b; mod c; pub use c::{Third, third};"),
        source("a.rs", "use crate::b::Second; use other_crate::c;"),
        source("b.rs", "mod deep;"),
        source("b/deep.rs", "use crate::{Third, b::{a, deep}};"),
        source("c.rs", "fn go() { crate::a::begin() }"),
        source("d.rs", "use crate::a;"),
    ];
    let graph = graph(&sources);
    assert_eq!(circles(&graph), [["a", "b", "c"]]);
    let circle = ["a", "b", "c"].map(str::to_owned);
    let edges: Vec<String> = edges_of(&graph, &circle).collect();
    assert_eq!(edges, ["a → b (a.rs)", "b → c (b/deep.rs)", "c → a (c.rs)"]);
}

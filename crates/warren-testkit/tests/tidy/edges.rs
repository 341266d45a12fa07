//! The dependencies that are allowed between our crates.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::tree::{complain, root};

/// A crate, and the crates of ours that it may depend on.
const EDGES: [(&str, &[&str]); 16] = [
    ("warren-core", &[]),
    ("warren-wire", &[]),
    ("warren-e2b", &["warren-core", "warren-engine", "warren-face", "warren-wire"]),
    ("warren-guest", &["warren-wire"]),
    ("warren-isolate", &["warren-core", "warren-wire"]),
    ("warren-network", &["warren-core"]),
    ("warren-registry", &["warren-core"]),
    ("warren-store", &["warren-core"]),
    ("warren-engine", &["warren-core", "warren-wire"]),
    ("warren-face", &["warren-core", "warren-engine", "warren-wire"]),
    ("warren-browser", &["warren-core", "warren-engine", "warren-face", "warren-wire"]),
    ("warren-mcp", &["warren-browser", "warren-core", "warren-engine", "warren-face", "warren-wire"]),
    (
        "warren-server",
        &[
            "warren-browser",
            "warren-core",
            "warren-e2b",
            "warren-engine",
            "warren-face",
            "warren-isolate",
            "warren-mcp",
            "warren-network",
            "warren-registry",
            "warren-store",
            "warren-wire",
        ],
    ),
    (
        "warren",
        &["warren-core", "warren-engine", "warren-registry", "warren-server", "warren-store", "warren-wire"],
    ),
    ("warren-bench", &["warren-core", "warren-server", "warren-wire"]),
    ("warren-testkit", &["warren-core", "warren-wire"]),
];

/// Tests from outside, and may use any crate.
const ANYTHING: &str = "warren-e2e";

/// Crates whose tests may use the test kit.
const TESTKIT_USERS: [&str; 8] = [
    "warren-isolate",
    "warren-network",
    "warren-store",
    "warren-engine",
    "warren-e2b",
    "warren-face",
    "warren-server",
    "warren",
];

#[test]
fn crates_depend_only_on_what_they_may() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("a list of packages");
    let names: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let allowed = BTreeMap::from(EDGES);
    let mut complaints = Vec::new();
    for package in packages {
        let from = package["name"].as_str().expect("a package has a name");
        if from == ANYTHING {
            continue;
        }
        let Some(may) = allowed.get(from) else {
            complaints.push(format!("{from} is new: say in `EDGES` what it may depend on"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let to = dependency["name"].as_str().expect("a dependency has a name");
            let in_tests = dependency["kind"].as_str() == Some("dev");
            let fine = may.contains(&to)
                || in_tests && to == "warren-testkit" && TESTKIT_USERS.contains(&from)
                || !names.contains(&to);
            if !fine {
                complaints.push(format!("{from} → {to}{}", if in_tests { " (in tests)" } else { "" }));
            }
        }
    }
    complain("forbidden dependencies", &complaints);
}

#[test]
fn every_dependency_takes_its_version_from_the_workspace() {
    let mut complaints = Vec::new();
    for manifest in crate::tree::files(&["toml"]).iter().filter(|path| path.ends_with("Cargo.toml")) {
        let text = crate::tree::read(manifest);
        let mut in_dependencies = false;
        for line in text.lines() {
            if let Some(section) = line.strip_prefix('[') {
                in_dependencies = section.trim_end_matches(']').ends_with("dependencies")
                    && !section.starts_with("workspace.");
            } else if in_dependencies && line.contains('=') && !line.contains("workspace") {
                complaints.push(format!("{}: {line}", manifest.display()));
            }
        }
    }
    complain("versions are in the root manifest only", &complaints);
}

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo prints JSON")
}

//! Builds the agent as a static binary of its own, so that a plain `cargo build` embeds it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let manifest_dir = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let target = env::var("TARGET").expect("cargo sets it");
    let crates = manifest_dir.parent().expect("the crate is in `crates/`");
    for part in ["warren-guest/src", "warren-guest/Cargo.toml", "warren-wire/src", "warren-wire/Cargo.toml"] {
        println!("cargo::rerun-if-changed={}", crates.join(part).display());
    }
    // `<target directory>/<profile>/build/<package>/out`: linting, documenting and testing have an
    // `out` each, and share one agent.
    let target_dir = out_dir.ancestors().nth(4).expect("cargo makes the directories").join("agent");
    build_guest(&crates.join("warren-guest/Cargo.toml"), &target_dir, &target);
    let binaries = target_dir.join(target).join("guest");
    let binary = binaries.join("warren-guest");
    println!("cargo::rustc-env=WARREN_SUDO={}", binaries.join("warren-sudo").display());
    println!("cargo::rustc-env=WARREN_GUEST={}", binary.display());
    println!("cargo::rustc-env=WARREN_GUEST_DIGEST={:016x}", fingerprint(&binary));
}

/// FNV-1a: tells one build's agent from another's. Nothing rests on it being hard to forge.
fn fingerprint(binary: &Path) -> u64 {
    let bytes = std::fs::read(binary).expect("the agent was just built");
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn build_guest(manifest: &Path, target_dir: &Path, target: &str) {
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo sets it"));
    cargo.args(["build", "--locked", "--profile", "guest", "--target", target]);
    cargo.arg("--manifest-path").arg(manifest).arg("--target-dir").arg(target_dir);
    // The outer build's flags and wrappers (a linter, another target directory) are not for the
    // agent. Static and not relocatable: it is executed for every sandbox, and this halves what
    // that costs.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let of_outer_build =
            text.starts_with("CARGO_") && text != "CARGO_HOME" && !text.starts_with("CARGO_NET");
        if of_outer_build
            || text.starts_with("RUSTC")
            || text.starts_with("RUSTFLAGS")
            || text.starts_with("CLIPPY")
        {
            cargo.env_remove(&name);
        }
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static\u{1f}-Crelocation-model=static");
    let status = cargo.status().expect("cargo can be started");
    assert!(status.success(), "building the agent failed: {status}");
}

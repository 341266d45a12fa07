//! Every check has the number it has in the list of adversarial checks; tests without one are about
//! what users see.

mod agent;
mod attacks;
mod backend;
mod calls;
mod conformance;
mod contexts;
mod control_groups;
mod crash;
mod data_directory;
mod docker;
mod doctor;
mod ending;
mod escape;
mod exhaustion;
mod flags;
mod habits;
mod inside;
mod keep;
mod kept;
mod kernel_tables;
mod leaks;
mod limits;
mod lxd;
mod mcp;
mod mounts;
mod neighbours;
mod network;
mod oci;
mod output;
mod ports;
mod private_usr;
mod privileges;
mod projects;
mod pulls;
mod run;
mod screen;
mod sealed;
mod server;
mod service;
mod shared_root;
mod sudo;
mod templates;
mod terminal;
mod together;
mod travel;

use std::io::Write;

use warren_e2e::{TestEnv, notes};

/// Named so that it starts last; being alone, it waits for all that still run.
#[test]
fn zz_what_was_not_tested_and_what_is_not_right_is_said() {
    let _alone = TestEnv::alone();
    let mut stderr = std::io::stderr();
    for line in notes() {
        writeln!(stderr, "  {line}").unwrap();
    }
}

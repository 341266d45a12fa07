//! Every check has the number it has in the list of adversarial checks; tests without one are about what users see.

mod backend;
mod calls;
mod control_groups;
mod crash;
mod ending;
mod escape;
mod exhaustion;
mod flags;
mod keep;
mod leaks;
mod limits;
mod mounts;
mod neighbours;
mod output;
mod privileges;
mod run;
mod templates;
mod terminal;

use std::io::Write;

use warren_e2e::{TestEnv, untested};

/// Named so that it starts last; being alone, it waits for all that still run.
#[test]
fn zz_what_was_not_tested_is_said() {
    let _alone = TestEnv::alone();
    let lines = untested();
    let mut stderr = std::io::stderr();
    writeln!(stderr, "{} checks were not tested on this machine", lines.len()).unwrap();
    for line in lines {
        writeln!(stderr, "  {line}").unwrap();
    }
}

//! Options that are refused before anything is made, and the messages.

use std::fs;
use std::os::unix::process::CommandExt;

use warren_e2e::{TestEnv, not_tested};

#[test]
fn wrong_values_are_refused_with_the_accepted_form() {
    let env = TestEnv::new();
    let cases: [(&[&str], i32, &str); 19] = [
        (&["--memory", "0"], 125, "memory must be between"),
        (&["--memory", "1x"], 2, "512m"),
        (&["--memory=-1"], 2, "512m"),
        (&["--memory=1e309"], 2, "512m"),
        (&["--memory", "18446744073709551615"], 125, "memory must be between"),
        (&["--cpus", "0"], 125, "cpus must be between"),
        (&["--cpus", "NaN"], 2, "0.5"),
        (&["--cpus", "99999"], 125, "cpus must be between"),
        (&["--pids", "0"], 125, "pids must be between"),
        (&["--pids", "4294967296"], 2, "--pids"),
        (&["--disk", "1k"], 125, "disk must be between"),
        (&["--inodes", "0"], 125, "inodes must be between"),
        (&["--timeout", "soon"], 2, "90s"),
        (&["--env", "=x"], 2, "NAME=VALUE"),
        (&["--mount", "/etc"], 2, "SRC:DST"),
        (&["--mount", "/etc:rel"], 2, "absolute"),
        (&["--mount", "/etc:/x:rx"], 2, "SRC:DST"),
        (&["--hostname=-x"], 125, "hostname"),
        (&["--nosuch"], 2, "--nosuch"),
    ];
    for (flags, code, text) in cases {
        let output = env.run_with(flags, ["true"]);
        assert_eq!(output.code, Some(code), "{flags:?}: {}", output.errors());
        assert!(output.errors().contains(text), "{flags:?}: {}", output.errors());
    }
    assert!(env.census().is_empty());
}

#[test]
fn an_unknown_template_is_refused_with_what_to_do() {
    let env = TestEnv::new();
    env.run_with(&["--template", "nosuch"], ["true"]).ended(125).says("warren template ls");
    env.run_with(&["--template", "../host"], ["true"]).ended(2).says("template name");
}

#[test]
fn a_missing_command_is_said() {
    let env = TestEnv::new();
    env.warren(["run"]).ended(2).says("CMD");
    env.warren(["run", "--"]).ended(2);
    env.run([""]).ended(125).says("no program");
}

#[test]
fn a_data_directory_that_cannot_be_used_is_named() {
    let env = TestEnv::new();
    fs::write(env.path("file"), "").unwrap();
    for place in [env.path("file/below").display().to_string(), "/proc/warren".to_owned()] {
        let mut command = std::process::Command::new(env.command([] as [&str; 0]).get_program());
        let output = command.args(["--data-dir", &place, "run", "--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(&place), "{output:?}");
    }
}

#[test]
fn whoever_is_not_root_is_told() {
    let env = TestEnv::new();
    let output = env.command(["run", "--", "true"]).uid(65534).gid(65534).output();
    let Ok(output) = output else {
        not_tested!(0, "the binary is where no other user can reach it");
        return;
    };
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("sudo"), "{output:?}");
}

#[test]
fn the_doctor_finds_a_machine_that_runs_this_test_fit() {
    let env = TestEnv::new();
    env.warren(["doctor"]).ok();
    assert!(env.warren(["doctor", "--json"]).ok().json().is_array());
}

//! The answers of `warren doctor` and `warren health` about a machine, and of commands to users who
//! are not root.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::Value;
use warren_e2e::{Output, TestEnv, eventually, not_tested};

/// The same command on a machine that was just started: modules are loaded when somebody asks for
/// what they offer, and the kernel's list of file systems has none of theirs yet.
fn freshly_booted(env: &TestEnv, command: &Command) -> Command {
    let list = env.path("filesystems");
    fs::write(&list, "nodev\tsysfs\nnodev\ttmpfs\nnodev\tproc\n").expect("a file can be written");
    let script = "mount --bind \"$0\" /proc/filesystems && exec \"$@\"";
    let mut outer = Command::new("unshare");
    outer.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer.args(["--mount", "sh", "-c", script]).arg(list);
    outer.arg(command.get_program()).args(command.get_args());
    outer.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    outer
}

fn check<'a>(checks: &'a Value, name: &str) -> &'a Value {
    let found = checks.as_array().expect("a list").iter().find(|check| check["name"] == name);
    found.unwrap_or_else(|| panic!("there is no check of {name}: {checks}"))
}

#[test]
fn a_module_that_is_not_loaded_yet_is_not_missed() {
    let env = TestEnv::new();
    let doctor = freshly_booted(&env, &env.command(["doctor", "--json"])).output().unwrap();
    let checks = Output::from(doctor).ok().json();
    assert_eq!(check(&checks, "overlayfs")["status"], "ok", "{checks}");
}

#[test]
fn a_server_on_a_machine_that_was_just_started_is_well() {
    let env = TestEnv::new();
    let ready = env.path("ready");
    let serve = env.command(["serve", "--listen", "127.0.0.1:0", "--env-file", ready.to_str().unwrap()]);
    let mut server =
        freshly_booted(&env, &serve).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually(Duration::from_secs(60), "the server is ready", || ready.exists());
    let health = env.warren(["health", "--json"]).json();
    let pid = i32::try_from(server.id()).ok().and_then(Pid::from_raw).unwrap();
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
    assert_eq!(health["backends"]["native"], true, "{health}");
    assert_ne!(health["status"], "critical", "{health}");
}

/// `warren` as a user who is not root, without a data directory of its own.
fn as_nobody(env: &TestEnv, data_dir: Option<&Path>, words: &[&str]) -> Option<Output> {
    let with = env.command(words);
    let mut command = Command::new(with.get_program());
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", env.path("home"));
    if let Some(path) = data_dir {
        command.arg("--data-dir").arg(path);
    }
    let output = command.args(words).uid(65534).gid(65534).stdin(Stdio::null()).output();
    let Ok(output) = output else {
        not_tested!(0, "the binary is where no other user can reach it");
        return None;
    };
    Some(Output::from(output))
}

/// Everything that a user may try first.
const FIRST_TRIES: [&[&str]; 12] = [
    &["run", "--", "true"],
    &["shell"],
    &["serve"],
    &["ls"],
    &["create"],
    &["exec", "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa", "--", "true"],
    &["rm", "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa"],
    &["health"],
    &["template", "ls"],
    &["template", "build", "base"],
    &["storage", "status"],
    &["tls", "init"],
];

#[test]
fn who_is_not_root_is_told_the_command_to_type_and_leaves_nothing() {
    let env = TestEnv::new();
    let home = env.path("home");
    fs::create_dir(&home).unwrap();
    for path in [env.place(), &home] {
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(path, open).unwrap();
    }
    std::os::unix::fs::chown(&home, Some(65534), Some(65534)).unwrap();
    let mine = home.join("data");
    for words in FIRST_TRIES {
        for data_dir in [None, Some(mine.as_path())] {
            let Some(output) = as_nobody(&env, data_dir, words) else { return };
            let said = output.errors();
            assert_eq!(output.code, Some(125), "{words:?}: {said}");
            // A command that starts a server is for root too.
            let sudo = said
                .lines()
                .find(|line| line.contains("sudo "))
                .unwrap_or_else(|| panic!("{words:?}: {said}"));
            assert!(sudo.contains(words[0]) || sudo.ends_with(" serve"), "{words:?}: {said}");
            for misleading in ["warren doctor`", "Permission denied (os error", "max_user_namespaces"] {
                assert!(!said.contains(misleading), "{words:?}: {said}");
            }
            assert_eq!(fs::read_dir(&home).unwrap().count(), 0, "{words:?} left something");
        }
    }
}

#[test]
fn what_a_server_keeps_for_root_is_not_taken_for_no_server() {
    let env = TestEnv::new();
    fs::create_dir(env.data_dir()).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(env.place(), open).unwrap();
    let closed = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(env.data_dir(), closed).unwrap();
    for words in [["ls"], ["health"]] {
        let Some(output) = as_nobody(&env, Some(&env.data_dir()), &words) else { return };
        output.ended(125).says("closed to this user").says("sudo").says("WARREN_API_KEY");
    }
}

#[test]
fn the_doctor_tells_who_is_not_root_that_and_nothing_that_follows_from_it() {
    let env = TestEnv::new();
    let Some(output) = as_nobody(&env, None, &["doctor", "--json"]) else { return };
    let checks = output.ended(125).json();
    let failed: Vec<_> =
        checks.as_array().unwrap().iter().filter(|check| check["status"] == "failed").collect();
    assert_eq!(failed.len(), 1, "{checks}");
    assert_eq!(check(&checks, "rights")["found"], "user 65534, who is not root");
    let Some(output) = as_nobody(&env, None, &["doctor"]) else { return };
    assert!(output.text().contains("sudo ") && output.text().contains(" doctor"), "{}", output.text());
    let program = env.command([] as [&str; 0]).get_program().to_owned();
    let named = format!("sudo {} doctor", program.display());
    assert!(output.text().contains(&named), "{}", output.text());
}

/// As systemd mounts it.
#[test]
fn a_shared_root_is_known_and_handled() {
    let env = TestEnv::new();
    let doctor = env.command(["doctor", "--json"]);
    let script = "mount --make-rshared / && exec \"$0\" \"$@\"";
    for (shared, flags) in [(true, ["sh", "-c", script].as_slice()), (false, &[])] {
        let mut outer = Command::new("unshare");
        outer.args(["--mount", "--propagation", "private"]).args(flags);
        outer.arg(doctor.get_program()).args(doctor.get_args());
        let checks = Output::from(outer.output().unwrap()).ok().json();
        let mounts = check(&checks, "mounts");
        let said = mounts["found"].as_str().unwrap();
        assert_eq!(mounts["status"], "ok", "{mounts}");
        assert_eq!(said.contains("`/` is shared with other mount tables"), shared, "{mounts}");
        assert!(said.ends_with("those of sandboxes stay apart"), "{mounts}");
    }
}

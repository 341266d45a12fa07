//! Hosts with other control groups: the v2 tree of this machine is taken away in a mount namespace
//! of the test.

use std::process::Command;

use warren_e2e::{Output, TestEnv, not_tested};

/// Runs `warren` with these words where only v1 hierarchies are mounted. `None` if this machine has
/// no such thing.
fn on_v1(env: &TestEnv, words: &[&str]) -> Option<Output> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("the mounts can be read");
    let v2 = mounts.lines().find(|line| line.contains(" cgroup2 "))?.split(' ').nth(1)?.to_owned();
    let has_v1 = ["memory", "pids", "cpu", "freezer"].iter().all(|controller| {
        mounts
            .lines()
            .any(|line| line.contains(" cgroup ") && line.split([',', ' ']).any(|word| word == *controller))
    });
    if !has_v1 {
        return None;
    }
    let warren = env.command(words);
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "umount \"$0\" && exec \"$@\"", &v2]);
    command.arg(warren.get_program()).args(warren.get_args());
    Some(command.output().expect("unshare is there").into())
}

#[test]
fn a_host_with_v1_alone_runs_limits_and_removes() {
    let env = TestEnv::new();
    let Some(output) = on_v1(&env, &["run", "--", "sh", "-c", "sleep 100 & echo up"]) else {
        not_tested!(0, "this machine has no v1 control groups to run on");
        return;
    };
    assert_eq!(output.ok().line(), "up");
    let bomb = "x = b''\nwhile True: x += bytes(1 << 20)";
    let bombed = on_v1(&env, &["run", "--memory", "64m", "--", "python3", "-c", bomb]).unwrap();
    bombed.ended(137).says("memory limit");
    let forks = "import os, time\nn = 0\ntry:\n  while n < 500:\n    if os.fork() == 0: time.sleep(100)\n    n += 1\nexcept OSError: print(n < 64)";
    let forked = on_v1(&env, &["run", "--pids", "64", "--", "python3", "-c", forks]).unwrap();
    assert_eq!(forked.ok().line(), "True");
    let report = on_v1(&env, &["run", "--json", "--", "sh", "-c", "for i in $(seq 100000); do :; done"])
        .unwrap()
        .ok()
        .json();
    assert!(report["usage"]["cpu_ns"].as_u64().unwrap() > 1_000_000, "{report}");
    let kept = on_v1(&env, &["run", "--keep", "--", "true"]).unwrap().ok().errors();
    let id = kept.split([' ', ';', '`']).find(|word| word.starts_with("sbx")).unwrap().to_owned();
    assert_eq!(on_v1(&env, &["exec", &id, "--", "echo", "kept"]).unwrap().ok().line(), "kept");
    on_v1(&env, &["rm", &id]).unwrap().ok();
    assert!(env.census().is_empty(), "{:?}", env.census());
}

//! Sandboxes that outlive the command that made them.

use warren_e2e::TestEnv;

#[test]
fn a_kept_sandbox_is_found_used_and_removed_by_others() {
    let env = TestEnv::new();
    let id = env.keep(&["--memory", "512m", "--cpus", "1", "--env", "COLOR=blue"]);
    let listed = env.warren(["ls", "--json"]).ok().json();
    let sandbox = &listed[0];
    assert_eq!((sandbox["id"].as_str(), sandbox["alive"].as_bool()), (Some(id.as_str()), Some(true)));
    assert_eq!(sandbox["spec"]["template"], "host");
    assert!(env.warren(["ls"]).ok().text().contains(&id));
    env.exec(&id, ["sh", "-c", "echo kept > ~/file"]).ok();
    assert_eq!(env.exec(&id, ["sh", "-c", "cat ~/file; echo $COLOR"]).ok().text(), "kept\nblue\n");
    assert_eq!(env.exec(&id, ["sh", "-c", "exit 9"]).code, Some(9));
    env.remove(&id).ok();
    assert_eq!(env.warren(["ls", "--json"]).ok().json().as_array().unwrap().len(), 0);
    env.exec(&id, ["true"]).ended(125).says("warren ls");
    env.remove(&id).ended(125).says("warren ls");
}

#[test]
fn a_shell_runs_in_a_kept_sandbox_and_in_a_fresh_one() {
    let env = TestEnv::new();
    let id = env.keep(&[] as &[&str]);
    let feed = |words: &[&str], input: &str| {
        use std::io::Write;
        let mut child = env.command(words).stdin(std::process::Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let output = feed(&["shell", &id], "echo one > f; exit 7\n");
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(env.exec(&id, ["cat", "f"]).ok().line(), "one");
    let fresh = feed(&["shell"], "cat f 2>/dev/null || echo none\n");
    assert_eq!(String::from_utf8_lossy(&fresh.stdout), "none\n");
    env.remove(&id).ok();
}

#[test]
fn exec_takes_a_user_a_directory_and_a_time_limit() {
    let env = TestEnv::new();
    let id = env.keep(&[] as &[&str]);
    let words = ["exec", &id, "--user", "root", "--workdir", "/usr", "--", "sh", "-c", "id -u; pwd"];
    assert_eq!(env.warren(words).ok().text(), "0\n/usr\n");
    env.warren(["exec", &id, "--timeout", "200ms", "--", "sleep", "60"]).ended(124);
    env.remove(&id).ok();
}

#[test]
fn many_commands_at_once_run_in_one_sandbox() {
    let env = TestEnv::new();
    let id = env.keep(&[] as &[&str]);
    let start = |number: usize| {
        let mut command = env.command(["exec", &id, "--", "sh", "-c"]);
        command.arg(format!("sleep 0.2; echo {number}")).spawn().unwrap()
    };
    let running: Vec<_> = (0..20).map(start).collect();
    for (number, child) in running.into_iter().enumerate() {
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{number}\n"), "{output:?}");
    }
    env.remove(&id).ok();
}

#[test]
fn a_name_that_is_no_id_is_refused() {
    let env = TestEnv::new();
    for wrong in ["../../etc", "sbx", "SBXaaaaaaaaaaaaaaaaaaaaaaaaaa", "sbxaaaaaaaaaaaaaaaaaaaaaaaaa/"] {
        env.warren(["rm", wrong]).ended(2).says("is no sandbox: expected an id");
    }
}

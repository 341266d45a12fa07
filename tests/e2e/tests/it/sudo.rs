//! `sudo` inside a sandbox: who may use it, and that what it starts has no more rights than
//! anything else there.

use warren_e2e::{TestEnv, probe_file};

fn sh(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}

#[test]
fn a_member_of_the_group_acts_as_root_and_as_others() {
    let env = TestEnv::new();
    let script = "sudo id -u; sudo -u nobody id -un; sudo -n -H -- sh -c 'echo $HOME $USER $SUDO_USER'
        cd /tmp && sudo pwd; sudo -i pwd; sudo -s echo 'a  b'; sudo A=1 sh -c 'echo $A'
        B=2 sudo sh -c 'echo [$B]'; B=2 sudo -E sh -c 'echo [$B]'; sudo sudo -u user whoami
        echo through | sudo cat; sudo sh -c 'echo err >&2' 2>&1 >/dev/null; sudo sh -c 'exit 7'; echo $?
        sudo sh -c 'kill -TERM $$' 2>/dev/null; echo $?";
    let expected = [
        "0",
        "nobody",
        "/root root user",
        "/tmp",
        "/root",
        "a  b",
        "1",
        "[]",
        "[2]",
        "user",
        "through",
        "err",
        "7",
        "143",
    ];
    assert_eq!(env.run(sh(script)).ok().text().lines().collect::<Vec<_>>(), expected);
}

#[test]
fn others_are_refused_by_name() {
    let env = TestEnv::new();
    for (user, name) in [("nobody", "nobody"), ("4242:27", "4242")] {
        let output = env.run_with(&["--user", user], sh("sudo id; echo $?"));
        assert_eq!(output.line(), "1", "as {user}");
        assert_eq!(output.errors().trim(), format!("sudo: {name} is not in the group `sudo`"));
    }
    let output =
        env.run(sh("sudo -u nobody sudo id; sudo no-such-program; sudo -u no-such-user id; echo $?"));
    let errors = output.errors();
    for part in ["nobody is not in the group `sudo`", "find `no-such-program` in PATH", "look up user"] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
}

#[test]
fn what_it_starts_has_the_rights_of_every_process() {
    let env = TestEnv::new();
    let id = env.keep(&[] as &[&str]);
    let rows = "grep -E '^(Seccomp|NoNewPrivs|CapInh|CapPrm|CapEff|CapBnd|CapAmb|Groups):' /proc/self/status";
    let direct = env.warren(["exec", &id, "--user", "root", "--", "sh", "-c", rows]).ok().text();
    assert_eq!(env.exec(&id, sh(&format!("sudo {rows}"))).ok().text(), direct);
    assert!(direct.contains("NoNewPrivs:\t1"), "{direct}");
    env.remove(&id).ok();
}

#[test]
fn signals_reach_the_program_and_it_ends_with_the_one_who_asked() {
    let env = TestEnv::new();
    // The program says when it is ready, so that no signal comes too early.
    let script = "mkfifo /tmp/ready /tmp/hold; chmod 666 /tmp/ready /tmp/hold
        sudo sh -c 'trap \"echo caught; exit 5\" TERM; echo > /tmp/ready; while :; do sleep 0.05; done' &
        read word < /tmp/ready; kill -TERM $!; wait $!; echo $?
        sudo sh -c 'echo $$ > /tmp/ready; exec sleep 1000' &
        read pid < /tmp/ready; kill -KILL $!; wait $! 2>/dev/null
        while sudo kill -0 $pid 2>/dev/null; do sleep 0.05; done; echo gone";
    assert_eq!(env.run(sh(script)).ok().text().lines().collect::<Vec<_>>(), ["caught", "5", "gone"]);
}

#[test]
fn those_who_talk_nonsense_to_the_agent_are_no_danger_to_it() {
    let env = TestEnv::new();
    assert_eq!(env.run(probe_file!("sudo_nonsense.py")).ok().line(), "ok");
}

#[test]
fn the_program_and_its_socket_cannot_be_replaced_by_users() {
    let env = TestEnv::new();
    let script = "for path in /run/warren/sudo /run/warren/sudo.sock; do
            rm -f $path 2>/dev/null; echo x 2>/dev/null > $path; mv $path /tmp 2>/dev/null
        done; touch /run/warren/new 2>/dev/null; sudo sh -c 'echo x > /run/warren/sudo' 2>/dev/null
        ls /run/warren | tr '\\n' ' '; sudo id -u";
    assert_eq!(env.run(sh(script)).ok().line(), "sudo sudo.sock 0");
}

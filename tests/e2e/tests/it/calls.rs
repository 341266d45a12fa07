//! Requests to the kernel: checks 8 and 12 to 15, and 17.

use warren_e2e::{TestEnv, not_tested, probe, probe_file};

const USERS: [&str; 2] = ["user", "root"];

#[test]
fn check_08_no_namespace_can_be_made_or_entered() {
    let env = TestEnv::new();
    for user in USERS {
        let output = env.run_with(&["--user", user], probe_file!("namespaces.py")).ok();
        assert_eq!(output.line(), "ok", "as {user}");
    }
}

#[test]
fn check_12_denied_calls_fail_with_our_error_and_the_caller_lives() {
    let env = TestEnv::new();
    for user in USERS {
        let output = env.run_with(&["--user", user], probe_file!("denied_calls.py")).ok();
        assert_eq!(output.line(), "ok", "as {user}");
    }
}

#[test]
fn check_12_the_strict_profile_denies_more() {
    let env = TestEnv::new();
    let body = "print(call(101, 0, 0, 0, 0), call(310, 1, 0, 0, 0, 0, 0), call(154, 0, 0, 0), call(275, 0, 0, 1, 0, 1, 0), call(278, 0, 0, 0, 0))";
    let output = env.run_with(&["--strict"], probe(body)).ok();
    assert_eq!(output.line(), "EPERM EPERM EPERM EPERM EPERM");
}

/// The i386 entry has other numbers, which a filter of ours would misread: a process that uses it
/// dies.
#[test]
fn check_13_the_i386_entry_kills() {
    let env = TestEnv::new();
    if !i386_works() {
        not_tested!(13, "this kernel has no i386 entry");
        return;
    }
    assert_eq!(env.run(probe_file!("i386.py")).ok().line(), "31 31 31", "SIGSYS each");
}

#[test]
fn check_13_the_x32_numbers_do_not_exist() {
    let env = TestEnv::new();
    // getpid, mount, unshare, bpf with bit 30; the kernel may lack x32, but then it would say
    // ENOSYS to all alike.
    let body = "print([call(0x40000000 | n, 0, 0, 0, 0, 0) for n in (39, 165, 272, 321, 0x3fffffff)])";
    assert_eq!(env.run(probe(body)).ok().line(), "['ENOSYS', 'ENOSYS', 'ENOSYS', 'ENOSYS', 'ENOSYS']");
    not_tested!(
        13,
        "whether x32 is refused by the filter or by the kernel cannot be told: this kernel has no x32"
    );
}

#[test]
fn check_14_only_plain_sockets_exist() {
    let env = TestEnv::new();
    for user in USERS {
        let output = env.run_with(&["--user", user], probe_file!("sockets.py")).ok();
        assert_eq!(output.line(), "ok", "as {user}");
    }
}

#[test]
fn check_15_no_module_is_loaded() {
    let env = TestEnv::new();
    let Ok(before) = std::fs::read_to_string("/proc/modules") else {
        not_tested!(15, "this kernel has no modules");
        return;
    };
    env.run_with(&["--user", "root"], probe_file!("sockets.py")).ok();
    env.run_with(&["--user", "root"], probe_file!("denied_calls.py")).ok();
    assert_eq!(std::fs::read_to_string("/proc/modules").unwrap(), before);
}

#[test]
fn check_17_nothing_can_be_typed_into_a_terminal() {
    let env = TestEnv::new();
    assert_eq!(env.run(probe_file!("terminal_typing.py")).ok().line(), "ok");
}

/// Makes the call outside, to know that it would work.
fn i386_works() -> bool {
    let code = probe_file!("i386.py");
    let output =
        std::process::Command::new("/usr/bin/python3").args(&code[1..]).output().expect("python3 is there");
    String::from_utf8_lossy(&output.stdout).trim() == "0 0 0"
}

//! Facts about the host that a sandbox could learn: checks 21 to 23 and 28.

use std::fs;

use warren_e2e::{TestEnv, probe, probe_file};

const USERS: [&str; 2] = ["user", "root"];

#[test]
fn check_21_files_that_tell_of_the_host_are_hidden() {
    let env = TestEnv::new();
    let hostname = fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned();
    let cmdline = fs::read_to_string("/proc/cmdline").unwrap().trim().to_owned();
    for user in USERS {
        let words = [probe_file!("host_facts.py"), vec![hostname.clone(), cmdline.clone()]].concat();
        assert_eq!(env.run_with(&["--user", user], words).ok().line(), "ok", "as {user}");
    }
}

/// Figures of the whole machine: other tenants show in them.
#[test]
fn check_21_the_load_of_others_does_not_show() {
    let env = TestEnv::new();
    let total = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let inside = env.run(["cat", "/proc/meminfo"]).ok().text();
    assert_ne!(total(&inside), total(&fs::read_to_string("/proc/meminfo").unwrap()));
    let tasks = env.run(["sh", "-c", "cut -d/ -f2 /proc/loadavg | cut -d' ' -f1"]).ok().line();
    assert!(tasks.parse::<u32>().unwrap() <= 20, "{tasks} tasks");
}

#[test]
fn check_22_no_secret_or_path_of_the_host_is_in_sight() {
    let env = TestEnv::new();
    let place = env.place().display().to_string();
    let words = [probe_file!("secrets.py"), vec![place, "hunter2-of-the-caller".to_owned()]].concat();
    for user in USERS {
        let mut run = env.run_command(&["--user", user], &words);
        let output = run.env("API_KEY", "hunter2-of-the-caller").output().unwrap();
        // The probe's own arguments are the one place where the words may be found.
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "ok", "as {user}: {output:?}");
    }
}

#[test]
fn check_23_mounts_and_numbers_tell_nothing() {
    let env = TestEnv::new();
    let gift = env.path("gift-of-tenant-7");
    fs::create_dir(&gift).unwrap();
    let flags = ["--mount".to_owned(), format!("{}:/gift", gift.display())];
    let output =
        env.run_with(&flags, ["sh", "-c", "cat /proc/self/mountinfo /proc/self/mounts /proc/mounts"]).ok();
    let text = output.text();
    for word in ["sbx", "/sandboxes/", "/templates", "/data/"] {
        assert!(!text.contains(word), "`{word}` is in {text}");
    }
    // What the user shares is shared with its path: the kernel shows the source of every bind
    // mount.
    let source = gift.display().to_string();
    assert!(text.contains(&source), "{text}");
}

#[test]
fn check_23_the_sandbox_has_its_own_device_numbers() {
    let env = TestEnv::new();
    let host = std::os::unix::fs::MetadataExt::dev(&fs::metadata("/").unwrap());
    let body = "print(os.stat('/').st_dev, os.stat('/tmp').st_dev, os.stat('/etc/passwd').st_dev)";
    let output = env.run(probe(body)).ok().line();
    let numbers: Vec<u64> = output.split(' ').map(|word| word.parse().unwrap()).collect();
    assert!(numbers[0] != host && numbers[1] != host, "{numbers:?}, the host's is {host}");
}

#[test]
fn check_28_hard_links_stay_in_the_sandbox() {
    let env = TestEnv::new();
    let shared = env.path("shared");
    fs::create_dir(&shared).unwrap();
    fs::write(shared.join("file"), "host").unwrap();
    let before = fs::metadata("/usr/bin/env").unwrap();
    let flags = ["--mount".to_owned(), format!("{}:/work", shared.display()), "--user".into(), "root".into()];
    assert_eq!(env.run_with(&flags, probe_file!("hard_links.py")).ok().line(), "ok");
    let after = fs::metadata("/usr/bin/env").unwrap();
    use std::os::unix::fs::MetadataExt;
    assert_eq!(
        (after.nlink(), after.ino(), after.len(), after.ctime()),
        (before.nlink(), before.ino(), before.len(), before.ctime())
    );
    assert_eq!(fs::read_to_string(shared.join("file")).unwrap(), "host");
}

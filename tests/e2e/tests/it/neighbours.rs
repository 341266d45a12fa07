//! Sandboxes beside each other, and after each other: checks 31, 34 and 37.

use std::collections::HashSet;
use std::fs;

use warren_e2e::{TestEnv, probe_file, processes_of};

#[test]
fn check_31_two_sandboxes_of_a_template_see_nothing_of_each_other() {
    let env = TestEnv::new();
    let backend = env.backend();
    let (left, right) = (backend.sandbox(), backend.sandbox());
    backend.spawn(&left, probe_file!("neighbour_here.py"));
    let ready = "for i in $(seq 100); do test -e /tmp/ready && exit 0; sleep 0.1; done; exit 1";
    assert_eq!(backend.exec(&left, ["sh", "-c", ready]).exit.code, 0);
    assert_eq!(backend.exec(&left, probe_file!("neighbour_seen.py")).line(), "all", "the probe can see");
    assert_eq!(backend.exec(&right, probe_file!("neighbour_seen.py")).line(), "nothing");
    backend.destroy(&left);
    backend.destroy(&right);
}

#[test]
fn check_34_nothing_of_a_destroyed_sandbox_is_found_by_the_next() {
    let env = TestEnv::new();
    let leave = "echo hunter2 | tee /tmp/left ~/left /dev/shm/left /var/tmp/left /usr/share/left >/dev/null; export S=hunter2; \
                 ipcmk -M 4096 >/dev/null; sleep 1000 &";
    let look = "find / -xdev -newer /etc/passwd -name left 2>/dev/null; find /dev/shm /usr/share -name left; env | grep hunter2; \
                ipcs -m | grep 0x; find / -xdev \\( -uid +65534 -o -gid +65534 \\) 2>/dev/null | head -3; true";
    for _ in 0..5 {
        env.run_with(&["--user", "root"], ["sh", "-c", leave]).ok();
        assert_eq!(env.run_with(&["--user", "root"], ["sh", "-c", look]).ok().text(), "");
    }
}

#[test]
fn check_37_changes_to_shared_files_are_copies() {
    let env = TestEnv::new();
    let files = ["/usr/bin/env", "/usr/share", "/etc/passwd"];
    let about = || {
        use std::os::unix::fs::MetadataExt;
        files
            .map(|path| fs::metadata(path).map(|a| (a.mode(), a.uid(), a.gid(), a.ctime(), a.len())).unwrap())
    };
    let before = about();
    let backend = env.backend();
    let root = |spec: &mut warren_core::SandboxSpec| spec.user = Some("root".into());
    let (left, right) = (backend.sandbox_with(root), backend.sandbox_with(root));
    let look = "stat -c '%a %u %g %s' /usr/bin/env /usr/share /etc/passwd; getfattr -d /usr/bin/env 2>/dev/null; ls /usr/share | wc -l";
    let seen = backend.exec(&right, ["sh", "-c", look]).line();
    let change = "chmod 777 /usr/bin/env; chown 7:7 /usr/bin/env /usr/share; python3 -c \"import os; os.setxattr('/usr/bin/env', \
                  'user.x', b'y')\"; echo evil::0:0::/: >> /etc/passwd; echo '#!/bin/sh' > /usr/bin/env; rm -rf /usr/share/doc; touch /usr/share/new";
    assert_eq!(backend.exec(&left, ["sh", "-c", change]).exit.code, 0);
    assert_eq!(backend.exec(&left, ["stat", "-c", "%a %u", "/usr/bin/env"]).line(), "777 7");
    assert_eq!(backend.exec(&right, ["sh", "-c", look]).line(), seen, "the neighbour");
    assert_eq!(about(), before, "the host");
    backend.destroy(&left);
    backend.destroy(&right);
}

#[test]
fn every_sandbox_has_host_ids_of_its_own() {
    let env = TestEnv::new();
    let backend = env.backend();
    let ids: Vec<_> = (0..10).map(|_| backend.sandbox()).collect();
    let mut bases = HashSet::new();
    for id in &ids {
        let pid = processes_of(id.as_str())[0];
        let map = fs::read_to_string(format!("/proc/{pid}/uid_map")).unwrap();
        let numbers: Vec<u32> = map.split_whitespace().map(|word| word.parse().unwrap()).collect();
        assert_eq!((numbers.len(), numbers[0], numbers[2]), (3, 0, 65_535), "{map}");
        assert!(numbers[1] >= 65_536, "the host's own ids are not among them: {map}");
        assert!(bases.insert(numbers[1] / 65_536), "two sandboxes share a range");
        assert_eq!(numbers[1] % 65_536, 0);
        let groups = fs::read_to_string(format!("/proc/{pid}/gid_map")).unwrap();
        assert_eq!(groups, map);
    }
    ids.iter().for_each(|id| backend.port().destroy(id).unwrap());
}

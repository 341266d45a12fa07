//! Host directories and files given to a sandbox. Check 6.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use warren_e2e::{TestEnv, known_gap};

fn mount(source: &Path, rest: &str) -> [String; 2] {
    ["--mount".to_owned(), format!("{}:{rest}", source.display())]
}

#[test]
fn a_directory_is_shared_both_ways_and_files_keep_the_host_owner() {
    let env = TestEnv::new();
    let shared = env.path("shared");
    fs::create_dir(&shared).unwrap();
    fs::write(shared.join("in"), "from the host").unwrap();
    for (owner, user) in [((0, 0), "user"), ((1234, 1235), "user"), ((1234, 1235), "root"), ((0, 0), "root")]
    {
        for path in [shared.clone(), shared.join("in")] {
            chown(path, Some(owner.0), Some(owner.1)).unwrap();
        }
        let flags = [mount(&shared, "/work").as_slice(), &["--user".to_owned(), user.to_owned()]].concat();
        let output = env
            .run_with(&flags, ["sh", "-c", "cat /work/in && echo x > /work/out && stat -c %u /work/in"])
            .ok();
        let inside = if user == "root" { "0" } else { "1000" };
        assert_eq!(output.line(), format!("from the host{inside}"));
        let made = fs::metadata(shared.join("out")).unwrap();
        assert_eq!((made.uid(), made.gid()), owner, "a file made by {user} belongs to the directory's owner");
        fs::remove_file(shared.join("out")).unwrap();
    }
}

#[test]
fn a_set_id_file_made_through_a_mount_is_not_one_of_the_host_s_root() {
    let env = TestEnv::new();
    let shared = env.path("shared");
    fs::create_dir(&shared).unwrap();
    let make = "cp /bin/true /work/suid && chmod 6755 /work/suid; mknod /work/null c 1 3; true";
    env.run_with(
        &[mount(&shared, "/work").as_slice(), &["--user".into(), "root".into()]].concat(),
        ["sh", "-c", make],
    )
    .ok();
    assert!(!shared.join("null").exists());
    let made = fs::metadata(shared.join("suid")).unwrap();
    known_gap!(
        16,
        "through a mount a sandbox can make a set-user-id program of the owner of the host's directory"
    );
    assert_eq!((made.uid(), made.permissions().mode() & 0o7777), (0, 0o6755));
}

#[test]
fn a_read_only_mount_cannot_be_written_by_anyone() {
    let env = TestEnv::new();
    let shared = env.path("shared");
    fs::create_dir(&shared).unwrap();
    fs::write(shared.join("in"), "x").unwrap();
    for user in ["user", "root"] {
        let flags = [mount(&shared, "/work:ro").as_slice(), &["--user".into(), user.into()]].concat();
        let tries = "cat /work/in; for c in 'touch /work/new' 'rm /work/in' 'chmod 777 /work/in' 'sh -c \"echo y > /work/in\"'; \
                     do eval \"$c\" 2>/dev/null && echo \"$c worked\"; done; true";
        assert_eq!(env.run_with(&flags, ["sh", "-c", tries]).ok().line(), "x", "as {user}");
    }
    assert_eq!(fs::read_dir(&shared).unwrap().count(), 1);
}

#[test]
fn a_single_file_is_mounted_and_written() {
    let env = TestEnv::new();
    fs::write(env.path("file"), "before").unwrap();
    let flags = mount(&env.path("file"), "/etc/deep/er/config");
    let output = env
        .run_with(&flags, ["sh", "-c", "cat /etc/deep/er/config; printf after > /etc/deep/er/config"])
        .ok();
    assert_eq!(output.text(), "before");
    assert_eq!(fs::read_to_string(env.path("file")).unwrap(), "after");
}

#[test]
fn wrong_sources_and_targets_are_refused() {
    let env = TestEnv::new();
    env.run_with(&["--mount", "/no/such/place:/work"], ["true"]).ended(125).says("/no/such/place");
    env.run_with(&["--mount", "/dev/null:/work"], ["true"]).ended(125).says("neither a file nor a directory");
    for target in ["/", "/proc/x", "/dev/x", "/sys", "/a/../../b"] {
        env.run_with(&["--mount", &format!("/etc/hostname:{target}")], ["true"]).ended(125).says("mounts");
    }
}

/// The link is the template's or an earlier mount's: followed as the sandbox would, inside its
/// root.
#[test]
fn a_target_behind_a_link_stays_inside() {
    let env = TestEnv::new();
    let (shared, trap, canary) = (env.path("shared"), env.path("trap"), env.path("canary"));
    for directory in [&shared, &trap, &canary] {
        fs::create_dir(directory).unwrap();
    }
    fs::write(shared.join("mark"), "shared").unwrap();
    symlink(&canary, trap.join("absolute")).unwrap();
    symlink("../../../../../../../..", trap.join("up")).unwrap();
    symlink("/proc/self/root", trap.join("magic")).unwrap();
    let through = |target: &str| {
        let flags = [mount(&trap, "/trap"), mount(&shared, target)].concat();
        env.run_with(
            &flags,
            ["sh", "-c", "cat $(find / -xdev -name mark 2>/dev/null) /trap/*/mark 2>/dev/null; true"],
        )
    };
    through("/trap/absolute");
    through("/trap/up/etc/made");
    through("/trap/magic/made");
    through("/var/run/made").ok();
    assert_eq!(
        fs::read_dir(&canary).unwrap().count(),
        0,
        "nothing was made where the link leads on the host"
    );
    assert!(!Path::new("/etc/made").exists() && !Path::new("/made").exists());
}

#[test]
fn a_mount_below_another_needs_its_mount_point() {
    let env = TestEnv::new();
    let (outer, inner) = (env.path("outer"), env.path("inner"));
    fs::create_dir(&outer).unwrap();
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("mark"), "inner").unwrap();
    let flags = [mount(&outer, "/outer"), mount(&inner, "/outer/inner")].concat();
    let output = env.run_with(&flags, ["cat", "/outer/inner/mark"]);
    if output.code == Some(125) {
        known_gap!(0, "a mount point below another mount is not made for any user but root");
    }
    fs::create_dir_all(outer.join("inner")).unwrap();
    assert_eq!(env.run_with(&flags, ["cat", "/outer/inner/mark"]).ok().text(), "inner");
}

#[test]
fn a_file_outside_the_mount_cannot_be_reached_through_links_in_it() {
    let env = TestEnv::new();
    let shared = env.path("shared");
    fs::create_dir(&shared).unwrap();
    fs::write(env.path("secret"), "hunter2").unwrap();
    symlink(env.path("secret"), shared.join("absolute")).unwrap();
    symlink("../secret", shared.join("relative")).unwrap();
    let look = "cat /work/absolute /work/relative /work/../secret 2>/dev/null; ls /work/..";
    let output = env.run_with(&mount(&shared, "/work"), ["sh", "-c", look]);
    assert!(!output.text().contains("hunter2"), "{output:?}");
}

/// Two sandboxes share a volume; one side swaps its directories for links while the other is made
/// to mount below it.
#[test]
fn check_06_swapping_directories_for_links_never_leads_outside() {
    let env = TestEnv::new();
    let (volume, canary, gift) = (env.path("volume"), env.path("canary"), env.path("gift"));
    for directory in [&volume, &canary, &gift] {
        fs::create_dir(directory).unwrap();
    }
    fs::write(gift.join("mark"), "gift").unwrap();
    fs::create_dir(volume.join("a")).unwrap();
    symlink(&canary, volume.join("b")).unwrap();
    let backend = env.backend();
    let mounts = |gift_at: &str| {
        let own = |source: &Path, target: &str| warren_core::Mount {
            source: source.to_owned(),
            target: target.into(),
            access: warren_core::MountAccess::ReadWrite,
        };
        vec![own(&volume, "/volume"), own(&gift, gift_at)]
    };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Swapped from the host, which is quicker than any sandbox could be; the pause leaves
            // the makers a processor.
            while !stop.load(Ordering::Relaxed) {
                let swap = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(
                    rustix::fs::CWD,
                    volume.join("a"),
                    rustix::fs::CWD,
                    volume.join("b"),
                    swap,
                )
                .unwrap();
                std::thread::sleep(std::time::Duration::from_micros(20));
            }
        });
        let (mut made, mut refused) = (0, 0);
        for round in 0..1000 {
            let mut spec = warren_core::SandboxSpec::new(warren_core::TemplateName::host());
            spec.mounts = mounts(&format!("/volume/a/deep{}", round % 3));
            // Only root's mounts can hold the mount point of another that is not there yet.
            spec.user = Some("root".into());
            match backend.port().create(backend.request(spec, warren_core::OwnerBond::DiesWithOwner)) {
                Ok(created) => {
                    made += 1;
                    backend.port().destroy(&created.id).unwrap();
                }
                Err(_) => refused += 1,
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(made > 0, "{made} were made, {refused} refused");
    });
    assert_eq!(fs::read_dir(&canary).unwrap().count(), 0, "a mount point was made outside");
    let host = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!host.contains(&volume.display().to_string()) && !host.contains(&gift.display().to_string()));
    assert!(backend.port().settle(std::time::Duration::from_secs(60)));
}

//! A small root file system of this machine's own programs, for backends that start sandboxes on
//! images.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

/// Programs that the suites use inside.
const PROGRAMS: [&str; 42] = [
    "sh", "bash", "true", "echo", "sleep", "cat", "ls", "head", "tail", "wc", "seq", "id", "mount", "umount",
    "mknod", "chroot", "unshare", "rm", "chown", "chmod", "mkdir", "touch", "grep", "tr", "cut", "env",
    "readlink", "stat", "dd", "uname", "nsenter", "ps", "sort", "test", "pwd", "date", "cp", "mv", "ln",
    "printf", "kill", "sed",
];

/// Makes the root in a directory that is empty or not there.
pub fn make(root: &Path) {
    for directory in [
        "usr/bin",
        "usr/lib",
        "usr/lib64",
        "etc",
        "root",
        "home/user",
        "tmp",
        "var/tmp",
        "proc",
        "sys",
        "dev",
        "run",
    ] {
        fs::create_dir_all(root.join(directory)).expect("there is room for a root");
    }
    for (link, target) in
        [("bin", "usr/bin"), ("sbin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")]
    {
        symlink(target, root.join(link)).expect("a link can be made");
    }
    for directory in ["tmp", "var/tmp"] {
        fs::set_permissions(root.join(directory), fs::Permissions::from_mode(0o1777))
            .expect("a mode can be set");
    }
    let put = |path: &str, text: &str| fs::write(root.join(path), text).expect("there is room for a root");
    put("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n");
    put("etc/group", "root:x:0:\nuser:x:1000:\n");
    for program in PROGRAMS {
        let found = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"].map(|place| Path::new(place).join(program));
        let Some(path) = found.iter().find(|path| path.exists()) else { continue };
        fs::copy(path, root.join("usr/bin").join(program)).expect("a program can be copied");
        for library in libraries(path) {
            let inside = root.join(library.trim_start_matches('/'));
            fs::create_dir_all(inside.parent().expect("it is in a directory")).expect("there is room");
            if !inside.exists() {
                fs::copy(&library, inside).expect("a library can be copied");
            }
        }
    }
}

/// Paths in what `ldd` says of a program.
fn libraries(program: &Path) -> Vec<String> {
    let output = Command::new("ldd").arg(program).output().expect("ldd is there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned).collect()
}

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::env::TestEnv;

const MIB: u64 = 1 << 20;

/// A small file system of its own.
#[derive(Debug)]
pub struct Disk {
    mount: PathBuf,
}

impl Disk {
    pub fn make(env: &TestEnv, mib: u64) -> Self {
        let (image, mount) = (env.path("disk.img"), env.path("disk"));
        File::create(&image).expect("the disk is made").set_len(mib * MIB).expect("the disk is made");
        fs::create_dir(&mount).expect("the disk is made");
        run(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image));
        run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&mount));
        Self { mount }
    }

    pub fn mount(&self) -> &Path {
        &self.mount
    }

    pub fn free(&self) -> u64 {
        let space = rustix::fs::statvfs(&self.mount).expect("there is a file system");
        space.f_bavail * space.f_frsize
    }

    /// Takes all but so many bytes.
    pub fn fill_to(&self, free: u64) {
        let room = self.free().saturating_sub(free);
        run(Command::new("fallocate").arg("-l").arg(room.to_string()).arg(self.filler()));
    }

    /// The file that takes the room.
    pub fn filler(&self) -> PathBuf {
        self.mount.join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("--lazy").arg(&self.mount).status());
    }
}

#[track_caller]
fn run(command: &mut Command) {
    let output = command.output().expect("it can be started");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

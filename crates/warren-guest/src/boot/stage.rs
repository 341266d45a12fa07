//! The stage: mounts a sandbox's root where an OCI runtime finds it, in a mount table of its own,
//! and becomes the runtime.
//!
//! The backend clones this process into a new mount namespace, and into the sandbox's control group
//! where the runtime has no objection. Nothing is ever mounted where the host sees it, so nothing
//! is left to be unmounted, whoever dies when. The process ends with the thread that started it,
//! and so does the runtime that it becomes.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, MountPropagationFlags, UnmountFlags, mount_bind, mount_change, unmount};
use rustix::process::{Pid, Signal};
use rustix::thread::CapabilitiesSecureBits;
use warren_wire::guest::{BootPlan, StagePlan, Staged};

use super::overlay::Layers;
use super::report::{self, Refusal, StepResult};
use super::root::{self, attach, new_file_system};
use super::{enter_network, files, identity, join_cgroups, sudo, sys};

/// Where layers are attached while overlays are made of them.
const LAYERS: &str = "layers";
/// The covers, where the agent's descriptors can write to them.
const WRITABLE_COVERS: &str = "writable-covers";

/// Carries out the plan that arrives on the control socket, reports on the same, and executes the
/// runtime. Returns only if something failed, which the report says.
pub(crate) fn run(control: &OsStr) -> Option<Errno> {
    let control = sys::inherit(control.to_str()?.parse().ok()?).ok()?;
    let parent = rustix::process::getppid();
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).ok()?;
    let outcome = report::receive(&control).and_then(prepare);
    report::send(&control, outcome.as_ref().err());
    let (plan, descriptors) = outcome.ok()?;
    Some(die_with(parent).err().unwrap_or_else(|| become_runtime(&plan, descriptors)))
}

/// Returns the descriptors for the runtime, in their order.
fn prepare(plan: StagePlan) -> Result<(StagePlan, Vec<OwnedFd>), Refusal> {
    sys::close_on_exec_from(3).step("descriptors", "mark inherited descriptors")?;
    let boot = &plan.boot;
    join_cgroups(boot)?;
    enter_network(boot)?;
    for (name, value) in root::SYSCTLS {
        files::write(CWD, &format!("/proc/{name}"), value)
            .step("network namespace", format!("set {name}"))?;
    }
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .step("mount namespace", "make every mount private")?;
    for path in &plan.hidden {
        match unmount(path.as_path(), UnmountFlags::DETACH) {
            // It is not there any more.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
            Err(errno) => {
                Err(errno).step("mount namespace", format!("hide `{}`", path.to_text()))?;
            }
        }
    }
    identity::assume_file_ids(boot.id_base).step("overlay", "take the sandbox's file ids")?;
    let place = open_place(&plan)?;
    mount_root(boot, plan.place.as_path(), &place)?;
    rustix::process::fchdir(&place).step("stage", "go to the place")?;
    let made = if boot.machine.is_some() { mount_machine(boot, &place)? } else { Vec::new() };
    let passed = plan.descriptors.iter().map(|number| sys::inherit(*number));
    let mut descriptors =
        passed.collect::<Result<Vec<_>, _>>().step("descriptors", "take what the agent needs")?;
    descriptors.extend(made);
    // The rest of what was taken on is given back by the execution itself.
    rustix::thread::set_capabilities_secure_bits(CapabilitiesSecureBits::empty())
        .step("stage", "give the runtime root's ordinary rights")?;
    if plan.enters == Some(true) {
        identity::enter_as_root(boot)?;
    }
    Ok((plan, descriptors))
}

/// Covers the place by a file system that vanishes with this process and the runtime.
fn open_place(plan: &StagePlan) -> Result<OwnedFd, Refusal> {
    let options = [("mode", "0755"), ("size", "1m"), ("nr_inodes", "512")];
    let place = new_file_system("tmpfs", &options, MountAttrFlags::empty()).step("stage", "mount a place")?;
    attach(&place, CWD, &plan.place.to_text()).step("stage", "attach the place")?;
    let directories = [Staged::ROOT, Staged::DEV, Staged::RUN, Staged::MACHINE, Staged::COVERS];
    for name in directories.into_iter().chain([LAYERS, WRITABLE_COVERS]) {
        make_directory(&place, name)?;
    }
    Ok(place)
}

fn make_directory(place: &OwnedFd, name: &str) -> Result<(), Refusal> {
    rustix::fs::mkdirat(place, name, Mode::from_raw_mode(0o755)).step("stage", format!("make `{name}`"))
}

/// Each mount of the sandbox apart: those that the runtime mounts itself can be moved later, others
/// are nailed to what they are on.
fn mount_root(plan: &BootPlan, path: &Path, place: &OwnedFd) -> Result<(), Refusal> {
    let layers = Layers::take(plan, &path.join(LAYERS).to_string_lossy())?;
    for (number, tree) in plan.trees.iter().enumerate() {
        let name = if number == 0 { Staged::ROOT.to_owned() } else { Staged::tree(number) };
        let mount = layers.mount(number, &tree.at.to_text())?;
        if number == 0 {
            // Whatever the template has there, the runtime finds directories.
            for own in ["proc", "dev", "run", "sys"] {
                files::system_directory(&mount, own).step("stage", format!("make `{own}` a directory"))?;
            }
            if plan.machine.is_none() {
                make_scratch(&mount).step("stage", "make `tmp` a directory")?;
            }
        } else {
            make_directory(place, &name)?;
        }
        attach(&mount, place, &name).step("overlay", format!("attach `{name}`"))?;
    }
    for number in 0..layers.count_shown() {
        let name = Staged::shown(number);
        make_directory(place, &name)?;
        layers.show_at(number, place, &name)?;
    }
    let dev = sys::inherit(plan.dev).step("/dev", "take the prepared tree")?;
    attach(&dev, place, Staged::DEV).step("/dev", "attach the prepared tree")?;
    root::furnish_dev(&dev, plan)?;
    let run =
        new_file_system("tmpfs", &root::RUN_OPTIONS, MountAttrFlags::empty()).step("/run", "mount it")?;
    attach(&run, place, Staged::RUN).step("/run", "attach it")?;
    for (number, bind) in plan.binds.iter().enumerate() {
        let name = Staged::bind(number);
        if bind.directory {
            make_directory(place, &name)?;
        } else {
            make_file(place, &name, 0o644).step("mounts", format!("make `{name}`"))?;
        }
        let source = sys::inherit(bind.source).step("mounts", format!("take the source for `{name}`"))?;
        attach(&source, place, &name).step("mounts", format!("attach `{name}`"))?;
    }
    Ok(())
}

/// gVisor is told that `/tmp` is mounted from the root, so there has to be one.
fn make_scratch(root: &OwnedFd) -> Result<(), Errno> {
    let name = "tmp";
    let found = rustix::fs::statat(root, name, AtFlags::SYMLINK_NOFOLLOW).map(|found| found.st_mode);
    if found.is_ok_and(|mode| FileType::from_raw_mode(mode) == FileType::Directory) {
        return Ok(());
    }
    drop(files::system_directory(root, name)?);
    rustix::fs::chmodat(root, name, Mode::from_raw_mode(0o1777), AtFlags::empty())
}

fn make_file(directory: impl AsFd, name: &str, mode: u32) -> Result<OwnedFd, Errno> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(mode))
}

/// The sandbox's own machine, as far as a runtime can show it. Answers the descriptors that the
/// agent's plan counts on. The working directory is the place.
fn mount_machine(plan: &BootPlan, place: &OwnedFd) -> Result<Vec<OwnedFd>, Refusal> {
    let Some(machine) = &plan.machine else { return Ok(Vec::new()) };
    let step = "machine";
    let tree = sys::inherit(machine.tree).step(step, "take the prepared tree")?;
    attach(&tree, place, Staged::MACHINE).step(step, "attach the prepared tree")?;
    let program = sudo::make_place()?;
    mount_bind(format!("{}/sudo", Staged::MACHINE), program.as_str()).step(step, "mount `sudo`")?;
    let mut made = vec![sudo::listen(place)?];
    let options = [("mode", "0755"), ("size", "256k"), ("nr_inodes", "16")];
    let covers = new_file_system("tmpfs", &options, MountAttrFlags::MOUNT_ATTR_NOEXEC)
        .step(step, "mount a place for the covers")?;
    attach(&covers, place, WRITABLE_COVERS).step(step, "attach the covers")?;
    // The backend's own mask must not count.
    rustix::process::umask(Mode::empty());
    for name in Staged::COVERED {
        made.push(make_file(&covers, name, 0o444).step(step, format!("make the cover of {name}"))?);
    }
    rustix::process::umask(Mode::from_raw_mode(0o022));
    mount_bind(WRITABLE_COVERS, Staged::COVERS).step(step, "show the covers")?;
    let shown = CString::new(Staged::COVERS).map_err(|_| Errno::INVAL).step(step, "name the covers")?;
    sys::make_read_only(place, &shown).step(step, "make the covers read-only")?;
    Ok(made)
}

/// Has the kernel end this process with its parent again, the runtime included. It forgot that when
/// the file ids changed, and would again at an execution that changed them back.
fn die_with(parent: Option<Pid>) -> Result<(), Errno> {
    sys::set_file_ids(0)?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have died in between.
    if rustix::process::getppid() == parent { Ok(()) } else { Err(Errno::SRCH) }
}

/// Gives each descriptor its number and executes. Returns why it could not.
fn become_runtime(plan: &StagePlan, descriptors: Vec<OwnedFd>) -> Errno {
    let words = |words: &[warren_wire::guest::ByteString]| {
        words.iter().filter_map(|word| CString::new(word.as_bytes()).ok()).collect::<Vec<_>>()
    };
    let Ok(program) = CString::new(plan.program.as_path().as_os_str().as_bytes()) else {
        return Errno::INVAL;
    };
    let (arguments, environment) = (words(&plan.arguments), words(&plan.environment));
    let place = || -> Result<_, Errno> {
        let output = sys::inherit(plan.output)?;
        let input = plan.input.map(sys::inherit).transpose()?;
        rustix::process::chdir("/")?;
        sys::place_descriptors(input.as_ref(), &output, &descriptors)?;
        Ok((input, output))
    };
    match place() {
        // Closed here, their old numbers would take along what has these numbers now.
        Ok(_open) => sys::execute(&program, &arguments, &environment),
        Err(errno) => errno,
    }
}

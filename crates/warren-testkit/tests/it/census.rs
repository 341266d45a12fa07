use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::Duration;

use warren_testkit::{Census, ScratchData};

fn names(data: &ScratchData) -> (Vec<String>, Vec<String>, Vec<String>) {
    let census = Census::take(data.path());
    (census.sandboxes, census.trash, census.ranges)
}

#[test]
fn a_directory_that_was_never_opened_is_clean() {
    let data = ScratchData::new().unwrap();
    Census::assert_clean(data.path());
}

#[test]
fn what_is_in_the_data_directory_is_named() {
    let data = ScratchData::new().unwrap();
    fs::create_dir_all(data.path().join("sandboxes/sbx1")).unwrap();
    fs::create_dir_all(data.path().join("trash/sbx2")).unwrap();
    fs::create_dir_all(data.path().join("ranges")).unwrap();
    symlink("sbx1", data.path().join("ranges/7")).unwrap();
    let named = |text: &str| vec![text.to_owned()];
    assert_eq!(names(&data), (named("sbx1"), named("sbx2"), named("7")));
}

#[test]
fn a_removal_that_is_under_way_is_waited_for() {
    let data = ScratchData::new().unwrap();
    let sandbox = data.path().join("sandboxes/sbx1");
    fs::create_dir_all(&sandbox).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            fs::remove_dir(&sandbox).unwrap();
        });
        Census::assert_clean(data.path());
    });
}

#[test]
fn an_ended_child_is_a_zombie_until_it_is_waited_for() {
    let data = ScratchData::new().unwrap();
    let mut child = Command::new("true").spawn().unwrap();
    let name = format!("{} (true)", child.id());
    while !Census::take(data.path()).zombies.contains(&name) {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait().unwrap();
    assert!(!Census::take(data.path()).zombies.contains(&name));
}

#[test]
fn a_process_in_a_group_of_the_instance_is_found_and_the_group_with_it() {
    let data = ScratchData::new().unwrap();
    let instance = format!("test{}", std::process::id());
    fs::write(data.path().join("instance"), &instance).unwrap();
    let Some(parent) = make_group(&instance) else {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CI makes control groups");
        println!("not tested: this user makes no control groups");
        return;
    };
    let group = parent.join("sbx1");
    fs::create_dir(&group).unwrap();
    let mut child = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().unwrap();
    fs::write(group.join("cgroup.procs"), child.id().to_string()).unwrap();

    let census = Census::take(data.path());
    assert_eq!(census.groups.as_slice(), std::slice::from_ref(&group));
    assert_eq!(census.processes, [format!("{} (sleep 60)", child.id())]);

    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_dir(&group).unwrap();
    Census::assert_clean(data.path());
    drop(data);
    assert!(!parent.exists(), "the instance's own group goes with its data directory");
}

/// Makes a group in a hierarchy, v1 or v2, that takes processes without other settings.
fn make_group(instance: &str) -> Option<std::path::PathBuf> {
    ["/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
        .iter()
        .map(|root| std::path::Path::new(root).join("warren").join(instance))
        .find(|group| fs::create_dir_all(group).is_ok() && group.join("cgroup.procs").exists())
}

#[test]
fn more_of_anything_nameless_is_growth_and_a_change_of_names_is_none() {
    let data = ScratchData::new().unwrap();
    let mut before = Census::take(data.path());
    before.descriptors = ["3 → /a".to_owned()].into();
    let mut after = before.clone();
    after.descriptors = ["4 → /b".to_owned()].into();
    assert_eq!(after.growth_since(&before), [""; 0]);
    after.descriptors.insert("5 → /c".to_owned());
    assert_eq!(after.growth_since(&before), ["  descriptor: 4 → /b", "  descriptor: 5 → /c"]);
}

#[test]
fn an_open_file_is_among_the_descriptors() {
    let data = ScratchData::new().unwrap();
    let path = data.path().join("held");
    let held = fs::File::create(&path).unwrap();
    let listed = |census: &Census| census.descriptors.iter().any(|line| line.ends_with("/held"));
    assert!(listed(&Census::take(data.path())));
    drop(held);
    assert!(!listed(&Census::take(data.path())));
}

//! Directories that were renamed, in layers that the kernel itself wrote.

use std::fs;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use warren_core::{
    DiffOptions, Export, ImportFormat, LayerContent as _, LayerId, LayerStore as _, NewLayer, Stack,
    TemplateName,
};
use warren_testkit::{sample_sandbox, sample_snapshot};

use crate::layers::content::fixture::Fixture;

/// Does what it can of what it is told: a line each, with words between bars.
const OPERATE: &str = "
import os, shutil, sys
for line in sys.argv[1].split(';'):
    word, *rest = line.split('|')
    try:
        if word == 'write':
            os.makedirs(os.path.dirname(rest[0]) or '.', exist_ok=True)
            open(rest[0], 'w').write(rest[1])
        elif word == 'rename':
            os.makedirs(os.path.dirname(rest[1]) or '.', exist_ok=True)
            os.rename(rest[0], rest[1])
        elif word == 'remove':
            shutil.rmtree(rest[0]) if os.path.isdir(rest[0]) else os.remove(rest[0])
        elif word == 'chmod':
            os.chmod(rest[0], 0o700)
    except OSError as error:
        if error.errno == 18: raise
";

/// Lets the kernel write a layer on top of a stack.
fn written(fixture: &Fixture, below: &Stack, operations: &str) -> LayerId {
    let mut root = fixture.root.clone();
    fixture.store.stand_on(below, &mut root).unwrap();
    let id = fixture.draw();
    let upper = fixture.store.place(&id).join("upper-0");
    let work = fixture.data.path().join(format!("work-{id}"));
    let place = fixture.data.path().join("place");
    for directory in [&upper, &work, &place] {
        fs::create_dir_all(directory).unwrap();
    }
    let lowers: Vec<_> = root[0].lowers.iter().map(|lower| lower.to_str().unwrap()).collect();
    let options = format!(
        "lowerdir={},upperdir={},workdir={},redirect_dir=on,metacopy=off,index=off,xino=off",
        lowers.join(":"),
        upper.display(),
        work.display()
    );
    let script = r#"mount -t overlay overlay -o "$1" "$2" && cd "$2" && exec python3 -c "$3" "$4""#;
    run(&[
        "unshare",
        "--mount",
        "sh",
        "-ec",
        script,
        "sh",
        &options,
        place.to_str().unwrap(),
        OPERATE,
        operations,
    ]);
    fixture.store.commit(&NewLayer { id: id.clone(), sandbox: None, created_unix_ms: 1 }).unwrap();
    id
}

/// A layer that holds what the kernel makes of a stack, on its own.
fn flat(fixture: &Fixture, stack: &Stack) -> Stack {
    let mut root = fixture.root.clone();
    fixture.store.stand_on(stack, &mut root).unwrap();
    let id = fixture.draw();
    let (layer, place) = (fixture.store.place(&id), fixture.data.path().join("place"));
    fs::create_dir_all(&layer).unwrap();
    let lowers: Vec<_> = root[0].lowers.iter().map(|lower| lower.to_str().unwrap()).collect();
    let options = format!("lowerdir={},redirect_dir=on,metacopy=off,index=off,xino=off", lowers.join(":"));
    let script = r#"mount -t overlay overlay -o "$1" "$2" && exec cp -a "$2" "$3/upper-0""#;
    let (place, layer) = (place.to_str().unwrap(), layer.to_str().unwrap());
    run(&["unshare", "--mount", "sh", "-ec", script, "sh", &options, place, layer]);
    fixture.store.commit(&NewLayer { id: id.clone(), sandbox: None, created_unix_ms: 1 }).unwrap();
    Stack(vec![id])
}

#[track_caller]
fn run(words: &[&str]) {
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The state after each of several lots of operations.
fn stacks(fixture: &Fixture, lots: &[String]) -> Vec<Stack> {
    let mut stacks = vec![Stack::default()];
    for lot in lots {
        let below = stacks.last().unwrap().clone();
        let layer = written(fixture, &below, lot);
        stacks.push(below.with(layer));
    }
    stacks
}

#[track_caller]
fn assert_same(fixture: &Fixture, one: &Stack, other: &Stack) {
    let diff = fixture.store.diff(&fixture.root, one, other, &DiffOptions::default()).unwrap();
    assert_eq!(diff.changes, []);
}

#[test]
fn a_renamed_directory_is_where_it_went_and_nowhere_else() {
    let fixture = Fixture::new();
    let lots =
        ["write|src/lib/a|1;write|src/b|2", "rename|src|code;write|code/c|3", "rename|code/lib|kept/old"];
    let stacks = stacks(&fixture, &lots.map(str::to_owned));
    let told = |from: usize, to: usize| {
        let diff =
            fixture.store.diff(&fixture.root, &stacks[from], &stacks[to], &DiffOptions::default()).unwrap();
        let line = |change: &warren_core::Change| format!("{:?} {}", change.kind(), change.path.display());
        diff.changes.iter().map(line).collect::<Vec<_>>()
    };
    let expected = [
        "Added /code",
        "Added /code/b",
        "Added /code/c",
        "Added /kept",
        "Added /kept/old",
        "Added /kept/old/a",
    ];
    assert_eq!(told(0, 3), expected);
    assert_eq!(
        told(2, 3),
        ["Removed /code/lib", "Removed /code/lib/a", "Added /kept", "Added /kept/old", "Added /kept/old/a"]
    );
    let differs =
        |path: &str| fixture.store.differs(&fixture.root, &stacks[1], &stacks[2], Path::new(path)).unwrap();
    assert!(differs("/src/b") && differs("/code/lib") && !differs("/kept"));
}

/// The kernel marks a new directory as hiding what is below it. What was moved into one is still
/// found.
#[test]
fn a_directory_that_was_in_a_new_one_meanwhile_keeps_what_it_holds() {
    let fixture = Fixture::new();
    let lots = ["write|a/a/fa|a", "rename|a|c/b", "rename|c/b|a"];
    let stacks = stacks(&fixture, &lots.map(str::to_owned));
    assert_same(&fixture, &flat(&fixture, &stacks[3]), &stacks[3]);
    assert_same(&fixture, &stacks[1], &flat(&fixture, &stacks[1]));
    assert!(!fixture.store.differs(&fixture.root, &stacks[1], &stacks[3], Path::new("/a/a/fa")).unwrap());
}

#[test]
fn a_history_with_renamed_directories_comes_back_as_it_was() {
    let fixture = Fixture::new();
    let lots = ["write|src/lib/a|1", "rename|src|code", "rename|code/lib|lib"];
    let stacks = stacks(&fixture, &lots.map(str::to_owned));
    let owner = warren_core::Owner::first();
    let mut snapshot = sample_snapshot(&owner, 1);
    snapshot.sandbox = sample_sandbox(&owner, 1).id;
    (snapshot.stack, snapshot.parent) = (stacks[3].clone(), None);
    let mut bytes = Vec::new();
    let what = Export::History { template: &TemplateName::host(), snapshots: &[snapshot] };
    fixture.store.export(&fixture.root, &what, &mut bytes).unwrap();
    let draw = || fixture.draw();
    let imported = fixture.store.import(&[], &mut bytes.as_slice(), ImportFormat::History, &draw).unwrap();
    assert_eq!(fixture.mounted(&imported.snapshots[0].stack), fixture.mounted(&stacks[3]));
}

fn operation() -> impl Strategy<Value = String> {
    let name = || prop::sample::select(vec!["a", "b", "c"]);
    let path = move || prop::collection::vec(name(), 1..4).prop_map(|names| names.join("/"));
    prop_oneof![
        3 => (path(), name()).prop_map(|(path, text)| format!("write|{path}/f{text}|{text}")),
        3 => (path(), path()).prop_map(|(from, to)| format!("rename|{from}|{to}")),
        1 => path().prop_map(|path| format!("remove|{path}")),
        1 => path().prop_map(|path| format!("chmod|{path}")),
    ]
}

proptest! {
    #![proptest_config(crate::layers::content::fixture::cases(12))]

    #[test]
    fn the_kernel_and_we_follow_the_same_renames(
        lots in prop::collection::vec(prop::collection::vec(operation(), 1..9), 2..6),
        split in any::<prop::sample::Index>(),
    ) {
        let fixture = Fixture::new();
        let lots: Vec<String> = lots.iter().map(|lot| lot.join(";")).collect();
        let stacks = stacks(&fixture, &lots);
        let all = stacks.last().unwrap();
        assert_same(&fixture, &flat(&fixture, all), all);
        let count = 1 + split.index(all.depth());
        let squashed = fixture.draw();
        fixture.store.squash(&all.0[..count], &squashed).unwrap();
        let mut shorter = Stack(all.0[count..].to_vec());
        shorter = shorter.with(squashed);
        prop_assert_eq!(fixture.mounted(&shorter), fixture.mounted(all));
        assert_same(&fixture, &shorter, all);
        // A diff of neighbours tells no less than one of what they amount to.
        let (before, after) = (&stacks[stacks.len() - 2], all);
        let paths = |from: &Stack, to: &Stack| -> Vec<_> {
            let diff = fixture.store.diff(&fixture.root, from, to, &DiffOptions::default()).unwrap();
            diff.changes.into_iter().map(|change| change.path).collect()
        };
        prop_assert_eq!(paths(before, after), paths(&flat(&fixture, before), &flat(&fixture, after)));
    }
}

use std::os::fd::AsFd as _;
use std::path::Path;

use warren_core::{
    ChangeKind, Conflicts, CopiedData, CreateRequest, DiffOptions, Export, ImportFormat, Isolation as _,
    LayerContent as _, LayerStore as _, Layered as _, LeaveOut, MergeOrder, NewLayer, Owner, OwnerBond,
    Random as _, RootTree, SandboxSpec, Sealed, Stack, TemplateName, Templates as _, TextDiff,
};

use super::*;
use crate::{FakeIsolation, FakeRandom, sample_snapshot};

/// A machine with one sandbox and a store of layers.
struct Bench {
    backend: Arc<FakeIsolation>,
    layers: Arc<FakeLayers>,
    random: FakeRandom,
    id: SandboxId,
}

impl Bench {
    fn new() -> Self {
        let backend = FakeIsolation::new();
        let random = FakeRandom::new(1);
        let id = SandboxId::from_random(random.bits());
        let bench = Self { layers: backend.layers(), backend, random, id };
        bench.backend.create(bench.request(&Stack::default())).unwrap();
        bench
    }

    fn request(&self, stack: &Stack) -> CreateRequest {
        let spec = SandboxSpec::new(TemplateName::host());
        let mut request = FakeTemplates::new().request(&self.id, &spec, OwnerBond::Outlives).unwrap();
        self.layers.stand_on(stack, request.root.trees_mut()).unwrap();
        request
    }

    fn draw(&self) -> LayerId {
        LayerId::from_random(self.random.bits())
    }

    fn commit(&self, id: &LayerId) {
        let layer = NewLayer { id: id.clone(), sandbox: Some(self.id.clone()), created_unix_ms: 1 };
        self.layers.commit(&layer).unwrap();
    }

    /// Writes files as if a program had, and makes a committed layer of them.
    fn layer(&self, on: &Stack, files: &[(&str, &str)]) -> Stack {
        crate::isolation::write_files(&self.backend, &self.id, files);
        let id = self.draw();
        let sealed =
            self.backend.seal(&self.id, &self.layers.place(&id), self.request(on).root.trees()).unwrap();
        assert!(matches!(sealed, Sealed::Done { .. }), "{sealed:?}");
        self.commit(&id);
        on.with(id)
    }

    fn root(&self) -> Vec<RootTree> {
        self.request(&Stack::default()).root.into_trees()
    }
}

#[test]
fn a_stack_is_found_again_in_a_root() {
    let bench = Bench::new();
    let one = bench.layer(&Stack::default(), &[("/tmp/a", "1")]);
    let two = bench.layer(&one, &[("/tmp/a", "2")]);
    assert_eq!(bench.layers.stack_of(bench.request(&two).root.trees()), two);
    assert_eq!(bench.layers.stack_of(&bench.root()), Stack::default());
    let found = bench.backend.list().unwrap();
    assert_eq!(bench.layers.stack_of(found[0].root.trees()), two);
    bench.backend.assert_clean();
}

#[test]
fn only_a_committed_and_whole_layer_is_stood_on() {
    let bench = Bench::new();
    crate::isolation::write_files(&bench.backend, &bench.id, &[("/tmp/a", "1")]);
    let id = bench.draw();
    bench.backend.seal(&bench.id, &bench.layers.place(&id), &bench.root()).unwrap();
    let stack = Stack(vec![id.clone()]);
    let stand = || bench.layers.stand_on(&stack, &mut bench.root()).map_err(|error| error.kind);
    assert_eq!(stand(), Err(LayerErrorKind::NotFound));
    assert!(!bench.layers.layers().unwrap()[0].committed);
    bench.commit(&id);
    assert_eq!(stand(), Ok(()));
    bench.layers.damage(&id);
    assert_eq!(stand(), Err(LayerErrorKind::Damaged));
    let missing = NewLayer { id: bench.draw(), sandbox: None, created_unix_ms: 1 };
    assert_eq!(bench.layers.commit(&missing).unwrap_err().kind, LayerErrorKind::NotFound);
}

#[test]
fn a_copy_holds_what_was_written_and_leaves_it() {
    let bench = Bench::new();
    crate::isolation::write_files(&bench.backend, &bench.id, &[("/tmp/a", "1")]);
    bench.backend.freeze(&bench.id).unwrap();
    let writable = bench.backend.writable(&bench.id).unwrap();
    let id = bench.draw();
    assert_eq!(copy_all(&bench.layers, writable.as_fd(), &id).unwrap().data, CopiedData::Bytes);
    bench.backend.thaw(&bench.id).unwrap();
    assert_eq!(bench.layers.file(&id, "/tmp/a").unwrap(), b"1");
    assert_eq!(bench.backend.file(&bench.id, "/tmp/a").unwrap(), b"1");
    bench.backend.assert_clean();
    let stranger = OwnedFd::from(UnixStream::pair().unwrap().0);
    let error = copy_all(&bench.layers, stranger.as_fd(), &bench.draw()).unwrap_err();
    assert_eq!(error.kind, LayerErrorKind::Invalid);
    copy_all(&bench.layers, writable.as_fd(), &bench.draw()).unwrap();
    assert!(bench.backend.violations()[0].contains("neither frozen nor halted"));
}

#[test]
fn removing_what_somebody_stands_on_is_written_down() {
    let bench = Bench::new();
    let stack = bench.layer(&Stack::default(), &[("/tmp/a", "1")]);
    let other = bench.draw();
    bench.layers.squash(&stack.0, &other).unwrap();
    bench.layers.remove(&other).unwrap();
    bench.layers.remove(&other).unwrap();
    bench.layers.assert_clean();
    bench.layers.remove(&stack.0[0]).unwrap();
    assert!(bench.layers.violations()[0].contains("stands on it"));
}

#[test]
fn a_squash_is_equal_to_what_it_was_made_of() {
    let bench = Bench::new();
    let one = bench.layer(&Stack::default(), &[("/tmp/a", "1"), ("/tmp/b", "1")]);
    let two = bench.layer(&one, &[("/tmp/a", "2")]);
    let flat = bench.draw();
    bench.layers.squash(&two.0, &flat).unwrap();
    let flat = Stack(vec![flat]);
    let diff = bench.layers.diff(&bench.root(), &two, &flat, &DiffOptions::default()).unwrap();
    assert!(diff.changes.is_empty());
    let three = bench.layer(&flat, &[("/tmp/c", "3")]);
    assert_eq!(three.depth(), 2, "a sandbox moves to an equal stack as it is sealed");
    bench.backend.assert_clean();
}

#[test]
fn a_diff_tells_each_path_once_and_lines_if_asked() {
    let bench = Bench::new();
    let one = bench.layer(&Stack::default(), &[("/tmp/a", "1\n"), ("/root/b", "1\n")]);
    let two = bench.layer(&one, &[("/tmp/a", "2\n"), ("/tmp/c", "3\n")]);
    let root = bench.root();
    let options = DiffOptions { text: true, below: "/tmp".into(), ..DiffOptions::default() };
    let diff = bench.layers.diff(&root, &one, &two, &options).unwrap();
    let told: Vec<_> =
        diff.changes.iter().map(|change| (change.path.to_str().unwrap(), change.kind())).collect();
    assert_eq!(told, [("/tmp/a", ChangeKind::Changed), ("/tmp/c", ChangeKind::Added)]);
    assert_eq!(diff.changes[0].text, Some(TextDiff::Unified("@@ -1,1 +1,1 @@\n-1\n+2\n".to_owned())));
    let first = DiffOptions { most: 1, ..DiffOptions::default() };
    let diff = bench.layers.diff(&root, &two, &Stack::default(), &first).unwrap();
    assert!(diff.truncated && diff.changes[0].kind() == ChangeKind::Removed);
    let differs = |path: &str| bench.layers.differs(&root, &one, &two, Path::new(path)).unwrap();
    assert!(differs("/") && differs("/tmp/a") && !differs("/root"));
}

#[test]
fn a_merge_joins_what_does_not_meet_and_lists_what_does() {
    let bench = Bench::new();
    let base = bench.layer(&Stack::default(), &[("/tmp/a", "0"), ("/tmp/b", "0")]);
    let ours = bench.layer(&base, &[("/tmp/a", "ours"), ("/tmp/x", "ours")]);
    bench.backend.halt(&bench.id).unwrap();
    let kept = CreateRequest { state: warren_core::RootState::Kept, ..bench.request(&base) };
    bench.backend.create(kept).unwrap();
    let theirs = bench.layer(&base, &[("/tmp/b", "theirs")]);
    let clash = bench.layer(&theirs, &[("/tmp/a", "theirs")]);
    let root = bench.root();
    let merge = |theirs: &Stack, conflicts: Conflicts| {
        let into = NewLayer { id: bench.draw(), sandbox: None, created_unix_ms: 1 };
        let leave_out = &LeaveOut::default();
        let below = std::path::Path::new("/");
        let order = MergeOrder { base: &base, ours: &ours, theirs, below, conflicts, leave_out };
        (bench.layers.merge(&root, &order, Some(&into)).unwrap(), into.id)
    };
    let (joined, layer) = merge(&theirs, Conflicts::Refuse);
    assert!(joined.made && joined.conflicts.is_empty());
    assert_eq!(joined.changes.len(), 1);
    assert_eq!(bench.layers.file(&layer, "/tmp/b").unwrap(), b"theirs");
    let (refused, layer) = merge(&clash, Conflicts::Refuse);
    assert!(!refused.made && refused.conflicts.len() == 1);
    assert!(bench.layers.layers().unwrap().iter().all(|each| each.id != layer));
    let (settled, layer) = merge(&clash, Conflicts::Theirs);
    assert!(settled.made);
    assert_eq!(bench.layers.file(&layer, "/tmp/a").unwrap(), b"theirs");
    let (settled, layer) = merge(&clash, Conflicts::Ours);
    assert!(settled.made && bench.layers.file(&layer, "/tmp/a").is_none());
    bench.backend.assert_clean();
}

#[test]
fn a_history_is_imported_under_other_ids() {
    let bench = Bench::new();
    let one = bench.layer(&Stack::default(), &[("/tmp/a", "1")]);
    let two = bench.layer(&one, &[("/tmp/a", "2")]);
    let mut snapshots = [sample_snapshot(&Owner::first(), 1), sample_snapshot(&Owner::first(), 2)];
    snapshots[0].stack = one;
    snapshots[1].stack = two.clone();
    snapshots[1].parent = Some(snapshots[0].id.clone());
    let (mut bytes, template, root) = (Vec::new(), TemplateName::host(), bench.root());
    let what = Export::History { template: &template, snapshots: &snapshots };
    bench.layers.export(&root, &what, &mut bytes).unwrap();
    let draw = || bench.draw();
    let imported = bench.layers.import(&[], &mut bytes.as_slice(), ImportFormat::History, &draw).unwrap();
    assert_eq!(imported.template, Some(template));
    assert_eq!(imported.snapshots[1].parent_was.as_deref(), Some(snapshots[0].id.as_str()));
    let copy = &imported.snapshots[1].stack;
    assert!(copy.0.iter().all(|id| !two.0.contains(id)));
    assert!(bench.layers.diff(&root, &two, copy, &DiffOptions::default()).unwrap().changes.is_empty());
    let before = bench.layers.layers().unwrap().len();
    for wrong in [b"{}".as_slice(), &bytes[1..]] {
        let error = bench.layers.import(&[], &mut { wrong }, ImportFormat::History, &draw).unwrap_err();
        assert_eq!(error.kind, LayerErrorKind::Invalid);
    }
    assert!(bench.layers.import(&[], &mut bytes.as_slice(), ImportFormat::Tar, &draw).is_err());
    assert_eq!(bench.layers.layers().unwrap().len(), before);
}

#[test]
fn a_state_comes_back_from_an_archive_and_from_a_template() {
    let bench = Bench::new();
    let stack = bench.layer(&Stack::default(), &[("/tmp/a", "1\n")]);
    let root = bench.root();
    let mut bytes = Vec::new();
    let what = Export::Tar { stack: &stack, below: "/".into() };
    bench.layers.export(&root, &what, &mut bytes).unwrap();
    let draw = || bench.draw();
    let imported = bench.layers.import(&[], &mut bytes.as_slice(), ImportFormat::Tar, &draw).unwrap();
    assert!(!bench.layers.differs(&root, &stack, &imported.snapshots[0].stack, Path::new("/")).unwrap());

    let mut patch = Vec::new();
    let what = Export::Patch {
        from: &Stack::default(),
        to: &stack,
        below: "/tmp".into(),
        leave_out: &LeaveOut::default(),
    };
    bench.layers.export(&root, &what, &mut patch).unwrap();
    let wanted = "diff --git a/a b/a\n--- /dev/null\n+++ b/a\n@@ -0,0 +1,1 @@\n+1\n";
    assert_eq!(String::from_utf8(patch).unwrap(), wanted);

    let templates = Arc::new(FakeTemplates::new());
    bench.layers.publish_templates(&templates);
    let name: TemplateName = "made".parse().unwrap();
    bench.layers.make_template(&TemplateName::host(), &stack, &name).unwrap();
    let id = SandboxId::from_random(bench.random.bits());
    let request = templates.request(&id, &SandboxSpec::new(name), OwnerBond::Outlives).unwrap();
    bench.backend.create(request).unwrap();
    assert_eq!(bench.backend.file(&id, "/tmp/a").unwrap(), b"1\n");
    bench.backend.assert_clean();
}

#[test]
fn calls_fail_when_told_to_and_are_counted() {
    let bench = Bench::new();
    let stack = bench.layer(&Stack::default(), &[("/tmp/a", "123")]);
    bench.layers.fail_next("sync", LayerErrorKind::Full);
    assert_eq!(bench.layers.sync(&stack.0).unwrap_err().kind, LayerErrorKind::Full);
    assert!(!bench.layers.is_synced(&stack.0[0]));
    bench.layers.sync(&stack.0).unwrap();
    assert!(bench.layers.is_synced(&stack.0[0]));
    assert_eq!(bench.layers.calls("sync"), 2);
    let space = bench.layers.space(&stack.0[0], Some(1)).unwrap().unwrap();
    assert_eq!((space.bytes, space.inodes), (3, 1));
    assert_eq!(bench.layers.space(&stack.0[0], Some(0)).unwrap(), None);
}

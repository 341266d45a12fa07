use std::os::fd::AsFd as _;

use warren_core::{
    IsolationErrorKind, LayerId, LayerStore as _, NewLayer, OwnerBond, Random as _, RootState, SandboxSpec,
    Stack, TemplateName, Templates as _,
};
use warren_wire::guest::{
    Connection, FileCall, FileOperation, ProcessId, ProcessSelector, Request, SignalCall, Start, WriteMode,
};

use super::*;
use crate::{FakeRandom, FakeTemplates};

fn request(layers: &FakeLayers, stack: &Stack) -> CreateRequest {
    let id = SandboxId::from_random(FakeRandom::new(1).bits());
    let spec = SandboxSpec::new(TemplateName::host());
    let mut request = FakeTemplates::new().request(&id, &spec, OwnerBond::Outlives).unwrap();
    layers.stand_on(stack, request.root.trees_mut()).unwrap();
    request
}

fn made() -> (Arc<FakeIsolation>, Arc<FakeLayers>, SandboxId) {
    let backend = FakeIsolation::new();
    let layers = backend.layers();
    let id = backend.create(request(&layers, &Stack::default())).unwrap().id;
    (backend, layers, id)
}

fn layer(number: u8) -> LayerId {
    LayerId::from_random([number; 16])
}

fn seal(backend: &FakeIsolation, id: &SandboxId, number: u8, on: &Stack) -> Result<Sealed, IsolationError> {
    let layers = backend.layers();
    let sealed = backend.seal(id, &layers.place(&layer(number)), request(&layers, on).root.trees())?;
    if matches!(sealed, Sealed::Done { .. }) {
        layers.commit(&NewLayer { id: layer(number), sandbox: None, created_unix_ms: 1 }).unwrap();
    }
    Ok(sealed)
}

fn is_done(sealed: &Result<Sealed, IsolationError>) -> bool {
    matches!(sealed, Ok(Sealed::Done { .. }))
}

fn call(backend: &FakeIsolation, id: &SandboxId) -> std::os::unix::net::UnixStream {
    backend.dial(id).unwrap().into()
}

#[test]
fn a_rollback_shows_exactly_the_other_content() {
    let (backend, layers, id) = made();
    let none = Stack::default();
    assert_eq!(seal(&backend, &id, 9, &none).unwrap(), Sealed::Unchanged);
    write_files(&backend, &id, &[("/tmp/a", "one"), ("/tmp/b", "one")]);
    assert!(is_done(&seal(&backend, &id, 1, &none)));
    let one = none.with(layer(1));
    assert_eq!(backend.file(&id, "/tmp/a").unwrap(), b"one", "it is still there, below");
    let remove = FileOperation::Remove { path: "/tmp/b".into(), recursive: false };
    let remove = Request::File(FileCall { user: None, operation: remove, as_root: None });
    Connection::ask(call(&backend, &id), &remove).unwrap();
    write_files(&backend, &id, &[("/tmp/a", "two"), ("/tmp/c", "two")]);
    backend.halt(&id).unwrap();
    assert!(is_done(&seal(&backend, &id, 2, &one)));
    let two = one.with(layer(2));
    for (stack, wanted) in [
        (&one, [Some("one"), Some("one"), None]),
        (&none, [None, None, None]),
        (&two, [Some("two"), None, Some("two")]),
    ] {
        backend.create(CreateRequest { state: RootState::Kept, ..request(&layers, stack) }).unwrap();
        let found = ["/tmp/a", "/tmp/b", "/tmp/c"].map(|path| backend.file(&id, path));
        assert_eq!(found, wanted.map(|text| text.map(|text| text.as_bytes().to_vec())));
        assert_eq!(layers.stack_of(backend.list().unwrap()[0].root.trees()), *stack);
        backend.halt(&id).unwrap();
    }
    backend.assert_clean();
}

#[test]
fn a_busy_sandbox_is_not_sealed_and_nothing_changes() {
    let (backend, layers, id) = made();
    let none = Stack::default();
    write_files(&backend, &id, &[("/tmp/a", "one")]);
    let start = Start { argv: vec!["sleep".into(), "1000".into()], ..Start::default() };
    Connection::ask(call(&backend, &id), &Request::Start(start)).unwrap();
    assert!(matches!(seal(&backend, &id, 1, &none).unwrap(), Sealed::Busy { .. }));
    let process = ProcessSelector::Id(ProcessId(2));
    let signal = Request::Signal(SignalCall { process, signal: 9, group: false });
    Connection::ask(call(&backend, &id), &signal).unwrap();

    let operation = FileOperation::Write {
        path: "/tmp/b".into(),
        mode: WriteMode::Replace,
        permissions: None,
        parents: false,
    };
    let write = Request::File(FileCall { user: None, operation, as_root: None });
    let mut open = Connection::open(call(&backend, &id), &write).unwrap();
    open.reply().unwrap();
    assert!(matches!(seal(&backend, &id, 1, &none).unwrap(), Sealed::Busy { .. }));
    open.send_end().unwrap();
    open.reply().unwrap();
    assert!(layers.layers().unwrap().is_empty());
    assert!(is_done(&seal(&backend, &id, 1, &none)));
    backend.assert_clean();
}

#[test]
fn a_frozen_sandbox_stays_frozen_and_a_dead_one_is_sealed_too() {
    let (backend, _, id) = made();
    write_files(&backend, &id, &[("/tmp/a", "one")]);
    backend.freeze(&id).unwrap();
    assert!(is_done(&seal(&backend, &id, 1, &Stack::default())));
    assert_eq!(backend.standing(&id), Some(Standing::Frozen));
    backend.thaw(&id).unwrap();
    write_files(&backend, &id, &[("/tmp/a", "two")]);
    backend.die(&id, false);
    assert!(is_done(&seal(&backend, &id, 2, &Stack(vec![layer(1)]))));
    assert_eq!(backend.layers().file(&layer(2), "/tmp/a").unwrap(), b"two");
    backend.assert_clean();
}

#[test]
fn what_has_to_stay_is_copied_and_cleared() {
    let (backend, layers, id) = made();
    write_files(&backend, &id, &[("/tmp/a", "one")]);
    backend.set_unmovable(true);
    backend.halt(&id).unwrap();
    assert_eq!(seal(&backend, &id, 1, &Stack::default()).unwrap(), Sealed::Unmovable);
    let writable = backend.writable(&id).unwrap();
    crate::layers::copy_all(&layers, writable.as_fd(), &layer(1)).unwrap();
    backend.clear(&id).unwrap();
    backend.clear(&id).unwrap();
    assert_eq!(backend.file(&id, "/tmp/a"), None);
    assert_eq!(layers.file(&layer(1), "/tmp/a").unwrap(), b"one");
    backend.assert_clean();
}

#[test]
fn broken_rules_of_layers_are_written_down() {
    type Offence = fn(&FakeIsolation, &SandboxId);
    let cases: [(&str, Offence); 6] = [
        ("does not stand on", |backend, id| {
            assert!(is_done(&seal(backend, id, 1, &Stack::default())));
            write_files(backend, id, &[("/tmp/b", "one")]);
            drop(seal(backend, id, 2, &Stack::default()));
        }),
        ("place that is taken", |backend, id| {
            assert!(is_done(&seal(backend, id, 1, &Stack::default())));
            drop(seal(backend, id, 1, &Stack(vec![layer(1)])));
        }),
        ("no place of a layer", |backend, id| {
            let root = request(&backend.layers(), &Stack::default()).root;
            drop(backend.seal(id, Path::new("/elsewhere"), root.trees()));
        }),
        ("clear of", |backend, id| drop(backend.clear(id))),
        ("destroyed", |backend, id| {
            backend.destroy(id).unwrap();
            drop(seal(backend, id, 1, &Stack::default()));
        }),
        ("other layers", |backend, id| {
            assert!(is_done(&seal(backend, id, 1, &Stack::default())));
            write_files(backend, id, &[("/tmp/b", "one")]);
            backend.halt(id).unwrap();
            let request = request(&backend.layers(), &Stack::default());
            drop(backend.create(CreateRequest { state: RootState::Kept, ..request }));
        }),
    ];
    for (expected, act) in cases {
        let (backend, _, id) = made();
        write_files(&backend, &id, &[("/tmp/a", "one")]);
        act(&backend, &id);
        let violations = backend.violations();
        assert!(violations.len() == 1 && violations[0].contains(expected), "{expected}: {violations:?}");
    }
}

#[test]
fn a_seal_that_fails_has_no_effect() {
    let (backend, layers, id) = made();
    write_files(&backend, &id, &[("/tmp/a", "one")]);
    backend.fail_next(Call::Seal, IsolationErrorKind::Host);
    assert_eq!(seal(&backend, &id, 1, &Stack::default()).unwrap_err().kind, IsolationErrorKind::Host);
    assert!(layers.layers().unwrap().is_empty());
    assert!(is_done(&seal(&backend, &id, 1, &Stack::default())));
    assert_eq!(backend.calls(Call::Seal), 2);
}

//! Limits hold as far as capabilities promise.

use std::time::{Duration, Instant};

use warren_core::{ByteSize, CreateRequest, DiskQuota, IsolationErrorKind, IsolationKind};

use super::inside::{assert_answers, has_ended, read, run, spawn, try_write, write};
use super::{PATIENCE, Rig, again, assert_refused, checks, create, request};

checks![a_disk_limit_holds_or_is_refused, memory_and_processes_are_limited];

fn a_disk_limit_holds_or_is_refused(rig: &mut dyn Rig) {
    let mut request = CreateRequest { disk_limit_required: true, ..request(rig) };
    request.spec.limits.disk = ByteSize::mib(64);
    if matches!(rig.backend().capabilities().disk_quota, DiskQuota::Watched | DiskQuota::None) {
        assert_refused(rig.backend().create(request), IsolationErrorKind::Unsupported, "a hard limit");
        return;
    }
    create(rig, &request);
    write(rig.backend(), &request.id, "/root/small", "it fits");
    let much = vec![b'x'; 96 << 20];
    for _ in 0..2 {
        assert!(try_write(rig.backend(), &request.id, "/root/large", &much).is_err(), "it does not fit");
        assert_answers(rig.backend(), &request.id);
        rig.backend().halt(&request.id).expect("halt");
        create(rig, &again(&request));
    }
}

fn memory_and_processes_are_limited(rig: &mut dyn Rig) {
    if !rig.has_shell() {
        return;
    }
    let mut request = request(rig);
    if rig.backend().capabilities().isolation == IsolationKind::UserKernel {
        return memory_is_limited_with_its_kernel(rig, request);
    }
    request.spec.limits.memory = ByteSize::mib(64);
    request.spec.limits.pids = 50;
    create(rig, &request);
    for _ in 0..2 {
        let (backend, id) = (rig.backend(), &request.id);
        let (code, _) =
            run(backend, id, &["sh", "-c", "head -c 300000000 /dev/zero | tail -c 200000000 >/dev/null"]);
        let used = backend.usage(id).expect("usage");
        assert!(code != 0 && (used.oom_kills > 0 || !rig.counts_kills()), "{code}: {used:?}");
        assert!(used.memory_peak_bytes <= 64 << 20, "{used:?}");
        run(backend, id, &["sh", "-c", "for i in $(seq 100); do sleep 1000 & done 2>/dev/null; true"]);
        assert!(backend.usage(id).expect("usage").pids <= 50);
        rig.backend().halt(&request.id).expect("halt");
        create(rig, &again(&request));
        assert_answers(rig.backend(), &request.id);
    }
}

/// A kernel in user space counts as part of its sandbox: whoever goes over the limit may end all of
/// it, and it starts again from its files.
fn memory_is_limited_with_its_kernel(rig: &mut dyn Rig, mut request: CreateRequest) {
    request.spec.limits.memory = ByteSize::mib(192);
    create(rig, &request);
    let (backend, id) = (rig.backend(), &request.id);
    write(backend, id, "/root/kept", "work");
    let watched = backend.watch(id).expect("watch");
    spawn(backend, id, &["sh", "-c", "head -c 900000000 /dev/zero | tail -c 800000000 | wc -c"]);
    let begun = Instant::now();
    let used = loop {
        let used = backend.usage(id).expect("usage");
        if used.oom_kills > 0 || has_ended(&watched, Duration::from_millis(20)) {
            break used;
        }
        assert!(begun.elapsed() < PATIENCE, "nobody is ended: {used:?}");
    };
    // While it ends somebody, the kernel itself may take a few pages more.
    assert!(used.memory_peak_bytes <= 193 << 20, "{used:?}");
    backend.halt(id).expect("halt");
    create(rig, &again(&request));
    assert_eq!(read(rig.backend(), &request.id, "/root/kept").as_deref(), Some("work"));
    assert_answers(rig.backend(), &request.id);
}

//! A request for a missing capability is refused by its name, and nothing is built.

use warren_core::{
    Capabilities, CreateRequest, IsolationErrorKind, Mount, MountAccess, MountRefusal, Need, NetworkPolicy,
    NetworkSupport, OwnerBond, Root, RootImage, RootImageName, RootKind,
};

use super::inside::assert_answers;
use super::{Rig, assert_nothing_is_left, assert_refused, checks, listed, made, request, spec};

checks![
    a_create_that_asks_for_what_is_denied_is_refused_by_name,
    a_backend_that_cannot_freeze_says_so,
    sockets_are_given_where_capabilities_say_so,
    mounts_are_looked_at_before_anything_is_built,
];

fn no_image() -> RootImage {
    "no/such:image".parse::<RootImageName>().expect("a name").into()
}

/// A request for each capability; true if the backend has it.
fn requests(rig: &dyn Rig) -> Vec<(&'static str, bool, CreateRequest)> {
    let can: &Capabilities = rig.backend().capabilities();
    let plain = request(rig);
    let has = |kind| can.roots.contains(&kind);
    let image = CreateRequest { root: Root::Image { image: no_image(), trees: Vec::new() }, ..plain.clone() };
    let layers = CreateRequest { root: Root::Layers(Vec::new()), ..plain.clone() };
    let mut network = plain.clone();
    network.spec.network = NetworkPolicy::public();
    let mut mounts = plain.clone();
    let (source, access) = ("/no/such".into(), MountAccess::ReadOnly);
    mounts.spec.mounts = vec![Mount { source, target: "/mnt".into(), access }];
    let limited = CreateRequest { disk_limit_required: true, ..plain.clone() };
    let outliving = rig.request(spec(), OwnerBond::Outlives);
    let quota = can.refuse(&[Need::DiskLimit]).is_none();
    vec![
        ("roots", has(RootKind::Image), image),
        ("roots", has(RootKind::Layers), layers),
        ("network", can.network == NetworkSupport::Namespace, network),
        ("host_mounts", can.host_mounts, mounts),
        ("disk_quota", quota, limited),
        ("outlives_server", can.outlives_server, outliving),
    ]
}

fn a_create_that_asks_for_what_is_denied_is_refused_by_name(rig: &mut dyn Rig) {
    for (capability, can, request) in requests(rig) {
        if can {
            continue;
        }
        let id = request.id.clone();
        let error = rig.backend().create(request).expect_err(capability);
        assert_eq!(error.kind, IsolationErrorKind::Unsupported, "{capability}: {}", super::told(&error));
        assert!(error.action.contains(&format!("`{capability}`")), "{capability}: {}", error.action);
        assert!(listed(rig, &id).is_none(), "{capability}");
    }
    assert_nothing_is_left(rig);
}

fn a_backend_that_cannot_freeze_says_so(rig: &mut dyn Rig) {
    if rig.backend().capabilities().freeze {
        return;
    }
    let id = made(rig).id;
    assert_refused(rig.backend().freeze(&id), IsolationErrorKind::Unsupported, "freeze");
    assert_refused(rig.backend().thaw(&id), IsolationErrorKind::Unsupported, "thaw");
    assert_answers(rig.backend(), &id);
}

fn sockets_are_given_where_capabilities_say_so(rig: &mut dyn Rig) {
    let id = made(rig).id;
    for v6 in [false, true] {
        let socket = rig.backend().socket(&id, v6).expect("socket");
        assert_eq!(socket.is_some(), rig.backend().capabilities().socket);
    }
}

fn mounts_are_looked_at_before_anything_is_built(rig: &mut dyn Rig) {
    let nowhere = std::path::Path::new("/no/such");
    assert_eq!(rig.backend().mount_source(nowhere), Err(MountRefusal::NotAllowed));
    assert!(rig.backend().list().expect("list").is_empty());
}

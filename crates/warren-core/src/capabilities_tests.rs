use serde_json::json;

use super::*;
use crate::network::NetworkPolicy;
use crate::{Mount, MountAccess, TemplateName};

fn all() -> Capabilities {
    Capabilities {
        snapshots: SnapshotSupport::Sealed,
        memory_snapshots: true,
        roots: vec![RootKind::Layers, RootKind::Image],
        network: NetworkSupport::Namespace,
        host_mounts: true,
        disk_quota: DiskQuota::Project,
        freeze: true,
        socket: true,
        outlives_server: true,
        isolation: IsolationKind::Namespaces,
    }
}

fn own(modes: &[&str]) -> NetworkSupport {
    NetworkSupport::Own { modes: modes.iter().map(|mode| (*mode).to_owned()).collect() }
}

const NEEDS: [Need; 12] = [
    Need::Root(RootKind::Layers),
    Need::Root(RootKind::Image),
    Need::Network,
    Need::NoNetwork,
    Need::HostMounts,
    Need::DiskLimit,
    Need::Freeze,
    Need::Snapshots,
    Need::MemorySnapshots,
    Need::OutlivesServer,
    Need::Tier(IsolationKind::Namespaces),
    Need::AtLeast(IsolationKind::Namespaces),
];

#[test]
fn each_capability_refuses_what_needs_it_and_nothing_else() {
    let can = all;
    let table: Vec<(Capabilities, &str, &[Need])> = vec![
        (can(), "", &[]),
        (Capabilities { roots: vec![RootKind::Image], ..can() }, "roots", &[Need::Root(RootKind::Layers)]),
        (Capabilities { roots: vec![RootKind::Layers], ..can() }, "roots", &[Need::Root(RootKind::Image)]),
        (Capabilities { network: NetworkSupport::None, ..can() }, "network", &[Need::Network]),
        (Capabilities { network: own(&["bridge", "none"]), ..can() }, "network", &[Need::Network]),
        (Capabilities { network: own(&["bridge"]), ..can() }, "network", &[Need::Network, Need::NoNetwork]),
        (Capabilities { host_mounts: false, ..can() }, "host_mounts", &[Need::HostMounts]),
        (Capabilities { disk_quota: DiskQuota::Image, ..can() }, "", &[]),
        (Capabilities { disk_quota: DiskQuota::Watched, ..can() }, "disk_quota", &[Need::DiskLimit]),
        (Capabilities { disk_quota: DiskQuota::None, ..can() }, "disk_quota", &[Need::DiskLimit]),
        (Capabilities { freeze: false, ..can() }, "freeze", &[Need::Freeze]),
        (Capabilities { snapshots: SnapshotSupport::Copied, ..can() }, "", &[]),
        (Capabilities { snapshots: SnapshotSupport::Scanned, ..can() }, "", &[]),
        (Capabilities { snapshots: SnapshotSupport::None, ..can() }, "snapshots", &[Need::Snapshots]),
        (Capabilities { memory_snapshots: false, ..can() }, "memory_snapshots", &[Need::MemorySnapshots]),
        (Capabilities { outlives_server: false, ..can() }, "outlives_server", &[Need::OutlivesServer]),
        (Capabilities { socket: false, ..can() }, "", &[]),
        (
            Capabilities { isolation: IsolationKind::Vm, ..can() },
            "isolation",
            &[Need::Tier(IsolationKind::Namespaces)],
        ),
    ];
    for (can, capability, refused) in table {
        for need in NEEDS {
            let refusal = can.refuse(&[need]);
            assert_eq!(refusal.is_some(), refused.contains(&need), "{need:?} of {can:?}");
            if let Some(refusal) = refusal {
                assert_eq!(refusal.capability, capability);
                assert!(refusal.to_string().contains(capability), "{refusal}");
            }
        }
    }
}

#[test]
fn a_spec_needs_what_it_asks_for() {
    let mut spec = SandboxSpec::new(TemplateName::host());
    spec.network = NetworkPolicy::default();
    let root = Need::Root(RootKind::Layers);
    assert_eq!(Need::of(&spec, RootKind::Layers, false), [root, Need::NoNetwork]);
    spec.network = NetworkPolicy::public();
    spec.mounts = vec![Mount { source: "/a".into(), target: "/b".into(), access: MountAccess::ReadOnly }];
    let needs = Need::of(&spec, RootKind::Layers, true);
    assert_eq!(needs, [root, Need::Network, Need::HostMounts, Need::DiskLimit]);
}

#[test]
fn capabilities_are_data_with_plain_names() {
    let can = Capabilities { network: own(&["bridge"]), ..all() };
    let text = json!({
        "snapshots": "sealed",
        "memory_snapshots": true,
        "roots": ["layers", "image"],
        "network": {"own": {"modes": ["bridge"]}},
        "host_mounts": true,
        "disk_quota": "project",
        "freeze": true,
        "socket": true,
        "outlives_server": true,
        "isolation": "namespaces",
    });
    assert_eq!(serde_json::to_value(&can).unwrap(), text);
    assert_eq!(serde_json::from_value::<Capabilities>(text).unwrap(), can);
    let field = |value: &Capabilities| serde_json::to_value(value).unwrap()["network"].clone();
    assert_eq!(field(&all()), "namespace");
    assert_eq!(field(&Capabilities { network: NetworkSupport::None, ..all() }), "none");
}

use warren_core::CheckStatus;

use super::*;

/// A machine with these files.
fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn by(files: &[(&str, &str)]) -> Option<String> {
    let root = machine(files);
    captor(root.path()).map(|path| path.strip_prefix(root.path()).unwrap().display().to_string())
}

/// A file that Debian ships, and one that people write to have every card configured.
const SHIPPED: (&str, &str) = (
    "usr/lib/systemd/network/80-container-ve.network",
    "[Match]\nKind=veth\nName=ve-*\n[Network]\nDHCPServer=yes\n",
);
const EVERY_CARD: &str = "[Match]\nType=ether\n\n[Network]\nDHCP=yes\n";

#[test]
fn a_file_for_every_card_takes_our_links_only_if_it_comes_before_ours() {
    assert_eq!(by(&[]), None);
    assert_eq!(by(&[SHIPPED]), None);
    assert_eq!(
        by(&[SHIPPED, ("etc/systemd/network/10-wired.network", EVERY_CARD)]),
        None,
        "ours comes first"
    );
    let first = "etc/systemd/network/00-all.network";
    assert_eq!(by(&[SHIPPED, (first, EVERY_CARD)]).as_deref(), Some(first));
    let unmanaged = format!("{EVERY_CARD}[Link]\nUnmanaged=yes\n");
    assert_eq!(by(&[(first, &unmanaged)]), None);
}

#[test]
fn ours_may_be_replaced_or_taken_away() {
    let away = ("etc/systemd/network/00-warren.network", "");
    let wired = "etc/systemd/network/10-wired.network";
    assert_eq!(by(&[away, (wired, EVERY_CARD)]).as_deref(), Some(wired));
    assert_eq!(by(&[away, (wired, "[Match]\nName=en*\n")]), None);
}

#[test]
fn a_file_is_understood_with_what_stands_beside_it() {
    let first = "etc/systemd/network/00-all.network";
    let beside = ("run/systemd/network/00-all.network.d/names.conf", "[Match]\nName=en*\n");
    assert_eq!(by(&[(first, EVERY_CARD), beside]), None);
    let reset = ("etc/systemd/network/00-all.network.d/z.conf", "[Match]\nName=\n");
    assert_eq!(by(&[(first, EVERY_CARD), beside, reset]).as_deref(), Some(first));
    // The same name in a directory that comes first hides the other.
    let hidden = "usr/lib/systemd/network/00-all.network";
    assert_eq!(by(&[(hidden, EVERY_CARD), (first, "[Match]\nName=en*\n")]), None);
}

#[test]
fn what_is_meant_by_a_match() {
    let matches = |text: &str| {
        let mut rule = Rule::default();
        rule.take(text);
        rule.matches()
    };
    for ours in [
        "[Match]\nName=*",
        "[Match]\nName=wrn*",
        "[Match]\nName=en* w*",
        "[Match]\nName=!en* lo",
        "[Match]\nDriver=veth",
        "[Match]\nKind=veth\nType=ether",
        "[Match]\nName=[a-z]*",
        "[Match]\nName=wrn?-????",
        "  [Match]  \n Name = * \n",
        "[Match]\nName=*\nVirtualization=no",
    ] {
        assert!(matches(ours), "{ours}");
    }
    for others in [
        "",
        "[Match]\n",
        "[Network]\nName=*",
        "[Match]\nName=en* eth?",
        "[Match]\nName=!wrn*",
        "[Match]\nName=[!w]*",
        "[Match]\nName=*\nType=wlan",
        "[Match]\nType=!ether",
        "[Match]\nKind=bridge",
        "[Match]\nMACAddress=02:00:00:00:00:01",
        "[Match]\nName=*\nPath=pci-*",
        "# [Match]\n#Name=*",
        "[Match]\n;Name=*",
    ] {
        assert!(!matches(others), "{others}");
    }
}

#[test]
fn who_does_not_run_takes_nothing() {
    let root = machine(&[("etc/systemd/network/00-all.network", EVERY_CARD)]);
    assert_eq!(judge(root.path(), false, false).status, CheckStatus::Ok);
    let found = judge(root.path(), true, false);
    assert_eq!(found.status, CheckStatus::Warning);
    assert!(found.found.contains("00-all.network") && found.advice.contains("wrn*"), "{found:?}");
}

#[test]
fn network_manager_is_known_by_what_marks_links() {
    let status = |files: &[(&str, &str)]| judge(machine(files).path(), false, true).status;
    assert_eq!(status(&[]), CheckStatus::Warning);
    assert_eq!(status(&[("run/systemd/system/any.unit", "")]), CheckStatus::Ok, "ours will be written");
    for marked in [
        (
            "usr/lib/udev/rules.d/85-nm-unmanaged.rules",
            "ENV{ID_NET_DRIVER}==\"veth\", ENV{NM_UNMANAGED}=\"1\"\n",
        ),
        ("run/udev/rules.d/00-warren.rules", "KERNEL==\"wrn*\", ENV{NM_UNMANAGED}=\"1\"\n"),
        ("etc/NetworkManager/conf.d/w.conf", "[keyfile]\nunmanaged-devices=interface-name:wrn*\n"),
    ] {
        assert_eq!(status(&[marked]), CheckStatus::Ok, "{marked:?}");
        assert_eq!(
            status(&[(marked.0, &format!("#{}", marked.1.replace('\n', "\n#")))]),
            CheckStatus::Warning
        );
    }
}

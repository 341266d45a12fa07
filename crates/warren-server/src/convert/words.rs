//! Enums of the domain and of the interface that have the same words. The two sides stay apart: a
//! word of the domain may change, one of the interface may not. The compiler holds each list
//! complete.

use warren_core::network::{GrantEffect, Protocol};
use warren_core::{
    Automatic, EntryKind, FileDeed, IsolationKind, NetworkMode, NetworkVerdict, OnExpiry, PausedBy, Profile,
    RunDenied, RunStatus, SandboxKind, Scope, SessionState, SnapshotMethod, Status,
};
use warren_engine::{HealthStatus, LaunchStatus, PathState};
use warren_wire::api;
use warren_wire::guest::{self, WatchKind};

type GuestEntryKind = guest::EntryKind;

macro_rules! told {
    ($($told:ident: $own:ident => $theirs:ident { $($word:ident)* })*) => {
        $(pub(crate) fn $told(word: $own) -> api::$theirs {
            match word { $($own::$word => api::$theirs::$word,)* }
        })*
    };
}

macro_rules! told_and_read {
    ($($told:ident, $read:ident: $own:ident => $theirs:ident { $($word:ident)* })*) => {
        $(told! { $told: $own => $theirs { $($word)* } }

        pub(crate) fn $read(word: api::$theirs) -> $own {
            match word { $(api::$theirs::$word => $own::$word,)* }
        })*
    };
}

told! {
    status: Status => SandboxStatus { Creating Ready Paused Stopping Stopped Failed }
    paused_by: PausedBy => PausedBy { Request Idleness }
    session_state: SessionState => SessionState { Active Detached Suspended Expired Released Terminated }
    snapshot_method: SnapshotMethod => SnapshotMethod { Unchanged Sealed Copied Cloned }
    run_status: RunStatus => RunStatus { Completed OverTime OverTokens }
    run_denied: RunDenied => RunDenied { Inactive NotReady Expired OutOfRuns OutOfTokens }
    protocol: Protocol => NetworkProtocol { Tcp Udp Icmp Dns }
    verdict: NetworkVerdict => NetworkVerdict { Allowed Denied Asked }
    path_state: PathState => PathState { Changed AsItBegan Removed NeverThere }
    health_status: HealthStatus => HealthStatus { Ok Warning Critical }
    launch_status: LaunchStatus => ProcessStatus { Starting Running Exited }
    file_type: EntryKind => FileType { File Directory Symlink Fifo Socket CharDevice BlockDevice }
    file_type_seen: GuestEntryKind => FileType { File Directory Symlink Fifo Socket CharDevice BlockDevice }
    file_change_kind: WatchKind => FileChangeKind {
        Created Written Removed Renamed AttributesChanged Overflowed
    }
    file_deed: FileDeed => FileDeed {
        Write Unpack MakeDirectory Rename Remove SetPermissions SetOwner MakeSymlink SetAttributes
    }
}

told_and_read! {
    sandbox_type, sandbox_kind: SandboxKind => SandboxType { Terminal Research PlaywrightMcp }
    history_mode, automatic: Automatic => HistoryMode { Commands Turns Off }
    profile_told, profile: Profile => Profile { Standard Strict }
    on_expiry_told, on_expiry: OnExpiry => OnExpiry { Keep Delete Pause }
    network_mode_told, network_mode: NetworkMode => NetworkMode { None Public Allow Ask Learn }
    effect_told, effect: GrantEffect => NetworkEffect { Allow Deny }
    scope_told, scope: Scope => Scope { Read Use Admin }
    tier_told, tier: IsolationKind => Tier { Namespaces UserKernel Vm Remote }
}

use http::StatusCode;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident $name:literal $status:ident $retry:tt $title:literal;)*) => {
        /// What programs branch on. Codes are only ever added.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum Code {
            $($(#[$doc])* $variant,)*
        }

        impl Code {
            /// Every code, for the documents that tests keep true.
            #[cfg(test)]
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant,)*];

            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            pub(crate) fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status,)* }
            }

            pub(crate) fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// Whether the same request may work later, and after how many seconds it is worth a try.
            pub(crate) fn retry_after_s(self) -> Option<u64> {
                match self { $(Self::$variant => codes!(@retry $retry),)* }
            }
        }
    };
    (@retry never) => { None };
    (@retry $seconds:literal) => { Some($seconds) };
}

codes! {
    InvalidRequest "invalid_request" BAD_REQUEST never "The request cannot be read";
    Unauthorized "unauthorized" UNAUTHORIZED never "A valid API key is needed";
    Forbidden "forbidden" FORBIDDEN never "The key may not do this";
    ForeignRequest "foreign_request" FORBIDDEN never "A page of another site may not do this";
    PermissionDenied "permission_denied" FORBIDDEN never "The user inside the sandbox may not do this";
    RouteNotFound "route_not_found" NOT_FOUND never "There is no such route";
    SandboxNotFound "sandbox_not_found" NOT_FOUND never "There is no such sandbox";
    SessionNotFound "session_not_found" NOT_FOUND never "There is no such session";
    ProcessNotFound "process_not_found" NOT_FOUND never "There is no such process";
    TemplateNotFound "template_not_found" NOT_FOUND never "There is no such template";
    SnapshotNotFound "snapshot_not_found" NOT_FOUND never "There is no such snapshot";
    ToolNotFound "tool_not_found" NOT_FOUND never "There is no such tool";
    NetworkRequestNotFound "network_request_not_found" NOT_FOUND never "Nothing of this number waits";
    SecretNotFound "secret_not_found" NOT_FOUND never "There is no such secret";
    ContextNotFound "code_context_not_found" NOT_FOUND never "There is no such context";
    KeyNotFound "key_not_found" NOT_FOUND never "There is no such key";
    PathNotFound "path_not_found" NOT_FOUND never "It does not exist inside the sandbox";
    NoDefaultSandbox "no_default_sandbox" NOT_FOUND never "No default sandbox is set";
    NotDead "not_dead" NOT_FOUND never "The sandbox lives";
    MethodNotAllowed "method_not_allowed" METHOD_NOT_ALLOWED never "The route does not have this method";
    RequestTimeout "request_timeout" REQUEST_TIMEOUT 1 "The request took too long";
    WrongState "wrong_state" CONFLICT never "The state does not allow this";
    SandboxEnded "sandbox_ended" CONFLICT never "The sandbox has ended";
    ProcessEnded "process_ended" CONFLICT never "The process has ended";
    AlreadyExists "already_exists" CONFLICT never "It exists already";
    WrongKind "wrong_kind" CONFLICT never "It is not what this call is for";
    InUse "in_use" CONFLICT never "It is in use";
    RunDenied "run_denied" CONFLICT never "The session may not run";
    IdempotencyMismatch "idempotency_mismatch" CONFLICT never "The idempotency key belongs to another request";
    SandboxExhausted "sandbox_exhausted" CONFLICT never "A limit of the sandbox is reached";
    SnapshotDamaged "snapshot_damaged" CONFLICT never "The snapshot is damaged";
    SnapshotNameTaken "snapshot_name_taken" CONFLICT never "Another snapshot has the name";
    NothingToUndo "nothing_to_undo" CONFLICT never "There is nothing to undo or redo";
    HistoryNotKept "history_not_kept" CONFLICT never "States in between were not kept";
    MergeConflict "merge_conflict" CONFLICT never "Both sides changed the same paths";
    RollbackInProgress "rollback_in_progress" CONFLICT 1 "A rollback is in progress";
    ToolsInFlight "tools_in_flight" CONFLICT 1 "Commands are still running";
    TooDeep "too_deep" CONFLICT 5 "The sandbox stands on too many layers for now";
    TooManyKeys "too_many_keys" CONFLICT never "There are too many keys";
    OtherNode "other_node" MISDIRECTED_REQUEST never "Another node holds it";
    PayloadTooLarge "payload_too_large" PAYLOAD_TOO_LARGE never "The body is too large";
    UnsupportedMediaType "unsupported_media_type" UNSUPPORTED_MEDIA_TYPE never "The body's type is not understood";
    RangeNotSatisfiable "range_not_satisfiable" RANGE_NOT_SATISFIABLE never "The range is outside the file";
    InvalidValue "invalid_value" UNPROCESSABLE_ENTITY never "A value cannot be used";
    Unsupported "unsupported" UNPROCESSABLE_ENTITY never "This is not supported here";
    SnapshotsUnavailable "snapshots_unavailable" UNPROCESSABLE_ENTITY never "Snapshots are not available here";
    NetworkUnavailable "network_unavailable" UNPROCESSABLE_ENTITY never "Sandboxes can have no network here";
    NothingFits "nothing_fits" UNPROCESSABLE_ENTITY never "No backend can serve this";
    TemplateBroken "template_broken" UNPROCESSABLE_ENTITY never "The template cannot be used";
    MaxSandboxes "max_sandboxes" TOO_MANY_REQUESTS 5 "There are too many sandboxes";
    TooManyCalls "too_many_calls" TOO_MANY_REQUESTS 1 "Too many calls are under way";
    MaxHeavyWork "max_heavy_work" TOO_MANY_REQUESTS 2 "Too much heavy work is done at once";
    TooManyAttempts "too_many_attempts" TOO_MANY_REQUESTS 10 "There were too many failed attempts";
    Internal "internal" INTERNAL_SERVER_ERROR never "The server failed";
    AgentUnreachable "agent_unreachable" BAD_GATEWAY 1 "The sandbox does not answer";
    SandboxIo "sandbox_io" BAD_GATEWAY never "The sandbox's kernel refused";
    PortClosed "port_closed" BAD_GATEWAY 1 "Nobody listens on the port";
    StartFailed "start_failed" SERVICE_UNAVAILABLE 5 "The sandbox could not be started";
    DiskLow "disk_low" SERVICE_UNAVAILABLE 60 "There is too little room on the disk";
    ReadOnly "read_only" SERVICE_UNAVAILABLE 60 "The server only answers questions";
    ShuttingDown "shutting_down" SERVICE_UNAVAILABLE 5 "The server is shutting down";
    Busy "busy" SERVICE_UNAVAILABLE 1 "The server is busy";
    Exhausted "exhausted" SERVICE_UNAVAILABLE 30 "The machine has no room for this";
    TimedOut "timed_out" GATEWAY_TIMEOUT 1 "It took longer than it may";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
    }

    #[test]
    fn what_is_refused_for_now_says_when_to_come_back() {
        for code in Code::ALL {
            let for_now = matches!(code.status().as_u16(), 429 | 503);
            assert!(!for_now || code.retry_after_s().is_some(), "{code:?}");
        }
    }
}

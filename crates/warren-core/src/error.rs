//! The vocabulary of errors: everything that can go wrong for a caller has one code, whichever
//! interface it came through. An interface renders a code in its own form (a status, a body, a
//! page, an exit code) and adds none.

mod causes;

use std::error::Error;

/// The family of an error. Interfaces choose statuses by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request is not in the form that the interface reads.
    Malformed,
    /// The caller did not prove an identity.
    Unauthenticated,
    /// The caller is known and may not do this.
    Forbidden,
    /// It does not exist, or belongs to another owner: the two cannot be told apart.
    NotFound,
    /// The state of things does not allow it.
    Conflict,
    /// More bytes than are accepted.
    TooLarge,
    /// A value that can be read and not used.
    Invalid,
    /// Neither this machine nor this backend can do it.
    Unsupported,
    /// The caller has as much as it may have at once.
    Limited,
    /// The server's own fault.
    Internal,
    /// The sandbox, or a program in it, did not do its part.
    Unreachable,
    /// The server cannot do it for the time being.
    Unavailable,
    /// It took longer than it may.
    TimedOut,
}

macro_rules! codes {
    ($($variant:ident $name:literal $kind:ident $retry:tt $title:literal $hint:literal;)*) => {
        /// The reason of an error, which programs branch on. Codes are only ever added.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $(#[doc = $title] $variant,)*
        }

        impl ErrorCode {
            /// Every code, in the order of the documents.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The code as it is written.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The code that is written so. A newer server may know more of them.
            pub fn named(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }

            pub fn kind(self) -> ErrorKind {
                match self { $(Self::$variant => ErrorKind::$kind,)* }
            }

            /// The error in a few words, the same each time.
            pub fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// The next thing to do about it. Commands and literal names are in backquotes.
            pub fn hint(self) -> &'static str {
                match self { $(Self::$variant => $hint,)* }
            }

            /// After how many seconds the same request is worth another try; none if it will fail
            /// again.
            pub fn retry_after_s(self) -> Option<u64> {
                match self { $(Self::$variant => codes!(@retry $retry),)* }
            }
        }
    };
    (@retry never) => { None };
    (@retry $seconds:literal) => { Some($seconds) };
}

codes! {
    InvalidRequest "invalid_request" Malformed never
        "The request cannot be read"
        "compare the request with the API's description: `GET /v1/openapi.json`";
    Unauthorized "unauthorized" Unauthenticated never
        "A valid API key is needed"
        "give the right key with --key or WARREN_API_KEY; `warren keys ls` lists keys";
    Forbidden "forbidden" Forbidden never
        "The key may not do this"
        "the key's scope does not allow this: `warren keys create --scope use` makes another";
    ForeignRequest "foreign_request" Forbidden never
        "A page of another site may not do this"
        "send the request from a program, or from a page of the same site";
    VolumeNotAllowed "volume_not_allowed" Forbidden never
        "The volume may not be mounted"
        "name a directory below those that the setting `mounts.allow` lists, or add it there";
    PortPrivate "port_private" Forbidden never
        "The port is private"
        "ask its owner for a link: `warren port ID PORT --link 1h` makes one";
    PortTokenInvalid "port_token_invalid" Forbidden never
        "The token does not open the port"
        "ask its owner for a link: `warren port ID PORT --link 1h` makes one";
    PortLinkInvalid "port_link_invalid" Unauthenticated never
        "The link does not open the port, or its time is over"
        "ask its owner for a link: `warren port ID PORT --link 1h` makes one";
    PermissionDenied "permission_denied" Forbidden never
        "The user inside the sandbox may not do this"
        "name a user who may, such as `root`, or change the rights of the file";
    RouteNotFound "route_not_found" NotFound never
        "There is no such route"
        "check the address: `GET /v1/openapi.json` lists all routes";
    SandboxNotFound "sandbox_not_found" NotFound never
        "There is no such sandbox"
        "`warren ls` lists the sandboxes there are, `warren ls --all` those that ended too";
    AmbiguousPrefix "ambiguous_prefix" Conflict never
        "The id of several sandboxes begins so"
        "write more of the id; `warren ls` lists the sandboxes there are";
    SessionNotFound "session_not_found" NotFound never
        "There is no such session"
        "`warren sessions` lists the sessions there are";
    ProcessNotFound "process_not_found" NotFound never
        "There is no such process"
        "`warren ps ID` lists the sandbox's processes";
    TemplateNotFound "template_not_found" NotFound never
        "There is no such template"
        "`warren template ls` lists templates; `warren template pull`, `import` and `build` make them";
    SnapshotNotFound "snapshot_not_found" NotFound never
        "There is no such snapshot"
        "`warren snapshots` lists the snapshots there are";
    ToolNotFound "tool_not_found" NotFound never
        "There is no such tool"
        "`GET /v1/tools` lists the tools there are";
    NetworkRequestNotFound "network_request_not_found" NotFound never
        "Nothing of this number waits"
        "`warren net requests ID` lists what waits";
    SecretNotFound "secret_not_found" NotFound never
        "There is no such secret"
        "`warren secret ls` lists the secrets there are, `warren secret set` makes one";
    ContextNotFound "code_context_not_found" NotFound never
        "There is no such context"
        "make a context again: those of an earlier life of the sandbox are gone";
    KeyNotFound "key_not_found" NotFound never
        "There is no such key"
        "`warren keys ls` lists keys";
    PathNotFound "path_not_found" NotFound never
        "It does not exist inside the sandbox"
        "check the path, which is one inside the sandbox";
    NoDefaultSandbox "no_default_sandbox" NotFound never
        "No default sandbox is set"
        "name a sandbox, or choose the default one: `warren default ID`";
    NotDead "not_dead" NotFound never
        "The sandbox lives"
        "ask for its death certificate when it has ended";
    MethodNotAllowed "method_not_allowed" Malformed never
        "The route does not have this method"
        "use a method that the route has: `GET /v1/openapi.json` lists them";
    RequestTimeout "request_timeout" TimedOut 1
        "The request took too long"
        "send the whole request at once, and try again";
    WrongState "wrong_state" Conflict never
        "The state does not allow this"
        "`warren ls` shows the state; `warren resume ID` lets a paused or stopped sandbox go on";
    SandboxEnded "sandbox_ended" Conflict never
        "The sandbox has ended"
        "`warren resume ID` starts it again with its files";
    ProcessEnded "process_ended" Conflict never
        "The process has ended"
        "start it again; `warren ps ID` lists what runs";
    AlreadyExists "already_exists" Conflict never
        "It exists already"
        "choose another name, or remove or replace what is there";
    WrongKind "wrong_kind" Conflict never
        "It is not what this call is for"
        "look at what it is first: a file, a directory, or something else";
    InUse "in_use" Conflict never
        "It is in use"
        "remove what uses it first: `warren ls --all` lists sandboxes with their templates";
    RunDenied "run_denied" Conflict never
        "The session may not run"
        "look at the session's limits and state, or begin another session";
    SandboxNameTaken "sandbox_name_taken" Conflict never
        "Another sandbox has the name"
        "choose another name, or give the other sandbox another one: `warren rename ID NAME`";
    IdempotencyMismatch "idempotency_mismatch" Conflict never
        "The idempotency key belongs to another request"
        "use a new idempotency key for a new request";
    SandboxExhausted "sandbox_exhausted" Conflict never
        "A limit of the sandbox is reached"
        "free something inside the sandbox, or make one with larger limits";
    SnapshotDamaged "snapshot_damaged" Conflict never
        "The snapshot is damaged"
        "go back to an earlier one: `warren snapshots` lists them";
    SnapshotNameTaken "snapshot_name_taken" Conflict never
        "Another snapshot has the name"
        "choose another name, or remove the other snapshot";
    NothingToUndo "nothing_to_undo" Conflict never
        "There is nothing to undo or redo"
        "`warren log ID` shows what was done";
    HistoryNotKept "history_not_kept" Conflict never
        "States in between were not kept"
        "`warren log ID` shows what was not kept, and why; --force takes it back as well";
    MergeConflict "merge_conflict" Conflict never
        "Both sides changed the same paths"
        "choose `ours` or `theirs`, or make both sides agree on these paths first";
    RollbackInProgress "rollback_in_progress" Conflict 1
        "A rollback is in progress"
        "wait until it is done, and try again";
    MoveInProgress "move_in_progress" Conflict 1
        "The sandbox is being moved behind another wall"
        "wait until it is done, and try again";
    ToolsInFlight "tools_in_flight" Conflict 1
        "Commands are still running"
        "`warren ps ID` lists what runs; --force ends it";
    TooDeep "too_deep" Conflict 5
        "The sandbox stands on too many layers for now"
        "try again when its layers have been joined, or fork it";
    OtherNode "other_node" Conflict never
        "Another node holds it"
        "ask the server of the node that the message names";
    SandboxConflict "sandbox_conflict" Conflict never
        "The chat has a sandbox of another kind"
        "end the chat's sandbox first, or name the agent and the volume that it has";
    TooManyKeys "too_many_keys" Conflict never
        "There are too many keys"
        "revoke keys that nobody needs: `warren keys ls` lists them";
    PayloadTooLarge "payload_too_large" TooLarge never
        "The body is too large"
        "send less at once";
    UnsupportedMediaType "unsupported_media_type" Malformed never
        "The body's type is not understood"
        "send the body as the type that the route takes, mostly `application/json`";
    RangeNotSatisfiable "range_not_satisfiable" Invalid never
        "The range is outside the file"
        "ask for a range within the file's size";
    InvalidValue "invalid_value" Invalid never
        "A value cannot be used"
        "correct the value that the error names";
    CommandTooLarge "command_too_large" Invalid never
        "The command is too large"
        "write what is long to a file in the sandbox first, or send it to the command's standard input";
    Unsupported "unsupported" Unsupported never
        "This is not supported here"
        "do without it, or use a template or a machine that has it: `warren doctor` tells what there is";
    SnapshotsUnavailable "snapshots_unavailable" Unsupported never
        "Snapshots are not available here"
        "`warren doctor` on the server's machine says what is missing";
    NetworkUnavailable "network_unavailable" Unsupported never
        "Sandboxes can have no network here"
        "`warren doctor` on the server's machine says what is missing";
    NothingFits "nothing_fits" Unsupported never
        "No backend can serve this"
        "ask for less, or for what one of the backends has: `warren backends` lists it";
    TemplateBroken "template_broken" Unsupported never
        "The template cannot be used"
        "import or build the template again, or use another: `warren template ls` lists them";
    MaxSandboxes "max_sandboxes" Limited 5
        "There are too many sandboxes"
        "`warren ls` lists sandboxes, `warren rm` removes them";
    MaxBuilds "max_builds" Limited 5
        "There are too many builds"
        "wait for one of the builds to end, and try again";
    TooManyCalls "too_many_calls" Limited 1
        "Too many calls are under way"
        "wait for calls to end, and send fewer at once";
    MaxHeavyWork "max_heavy_work" Limited 2
        "Too much heavy work is done at once"
        "wait for the work under way to end, and try again";
    TooManyAttempts "too_many_attempts" Limited 10
        "There were too many failed attempts"
        "wait, and try again with the right key";
    Internal "internal" Internal never
        "The server failed"
        "look for the request's id in the server's log";
    AgentUnreachable "agent_unreachable" Unreachable 1
        "The sandbox does not answer"
        "try again; if it stays so, `warren stop ID` and `warren resume ID` start it anew";
    SandboxIo "sandbox_io" Unreachable never
        "The sandbox's kernel refused"
        "look at what the kernel said: the file or device inside the sandbox cannot do this";
    PortClosed "port_closed" Unreachable 1
        "Nobody listens on the port"
        "start the application, or try again when it has started";
    PortGarbled "port_garbled" Unreachable never
        "The application did not answer with HTTP"
        "look at what the application writes: it has to speak HTTP/1.1 on this port";
    TooManyConnections "too_many_connections" Unavailable 1
        "There are too many connections"
        "close connections to the sandbox's ports, and try again";
    StartFailed "start_failed" Unavailable 5
        "The sandbox could not be started"
        "try again; `warren doctor` on the server's machine checks what sandboxes need";
    BackendUnavailable "backend_unavailable" Unavailable 5
        "The backend of the sandbox is away"
        "its files are kept: `warren backends` shows what is wrong with it, `warren doctor` what to do about it";
    DiskLow "disk_low" Unavailable 60
        "There is too little room on the disk"
        "free room on the server's disk: `warren rm` removes sandboxes with their files";
    ReadOnly "read_only" Unavailable 60
        "The server only answers questions"
        "`warren health` says why; `warren health --accept-losses` goes on without what is missing";
    ShuttingDown "shutting_down" Unavailable 5
        "The server is shutting down"
        "try again when the server is back: sandboxes are kept";
    Busy "busy" Unavailable 1
        "The server is busy"
        "try again in a moment";
    Exhausted "exhausted" Unavailable 30
        "The machine has no room for this"
        "`warren ls` lists sandboxes, `warren rm` removes them; or try again later";
    PortSilent "port_silent" TimedOut never
        "The application did not answer in time"
        "look at what the application does: `warren logs` shows what it writes";
    TimedOut "timed_out" TimedOut 1
        "It took longer than it may"
        "try again, or ask for less, or allow it more time";
    ImageNotFound "image_not_found" NotFound never
        "The registry has no such image"
        "check the image's name and tag, and whether its repository needs credentials";
    RegistryDenied "registry_denied" Invalid never
        "The registry does not give the image to this caller"
        "give the registry's credentials: `warren template pull IMAGE --username NAME` asks for the password";
    RegistryUnavailable "registry_unavailable" Unavailable 10
        "The registry does not answer as it should"
        "try again later, what has arrived is kept; a registry without TLS is named in the setting `images.plain_http`";
}

/// An error with all its causes, in one line.
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |&cause: &&(dyn Error + 'static)| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_has_a_name_of_its_own_and_is_found_by_it() {
        let names: BTreeSet<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(names.len(), ErrorCode::ALL.len());
        for code in ErrorCode::ALL {
            let name = code.as_str();
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
            assert_eq!(ErrorCode::named(name), Some(*code));
        }
        assert_eq!(ErrorCode::named("of_a_newer_server"), None);
    }

    #[test]
    fn every_hint_says_something_else_than_the_title() {
        for code in ErrorCode::ALL {
            let (title, hint) = (code.title(), code.hint());
            assert!(hint.split_whitespace().count() >= 4 && !hint.ends_with('.'), "{code:?}: {hint}");
            assert!(hint.matches('`').count() % 2 == 0, "{code:?}: {hint}");
            assert!(!hint.starts_with(char::is_uppercase) && !title.eq_ignore_ascii_case(hint), "{code:?}");
        }
    }

    #[test]
    fn an_error_that_passes_says_when_to_come_back() {
        for code in ErrorCode::ALL {
            let passes = matches!(code.kind(), ErrorKind::Limited | ErrorKind::Unavailable);
            assert!(!passes || code.retry_after_s().is_some(), "{code:?}");
        }
    }
}

use std::sync::LazyLock;

use http::request::Parts;
use http::{Method, StatusCode};
use percent_encoding::percent_decode_str;
use warren_face::route::Route;

use super::path::clean;
use super::refusal::Refusal;
use super::{filesystem, process};

/// The call that a request makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    Health,
    Metrics,
    Envs,
    Download,
    Upload,
    Compose,
    Filesystem(filesystem::Method),
    Process(process::Method),
    /// A method that a service does not have. It is refused like everything else: after the token
    /// was looked at.
    Unknown(&'static str, String),
}

type Row = Route<Call>;

pub(super) const FILESYSTEM: &str = "/filesystem.Filesystem/";
const PROCESS: &str = "/process.Process/";

/// Calls that elsewhere only the machinery around a sandbox may make. Here nobody may.
const INTERNAL: [&str; 7] =
    ["/init", "/freeze", "/unfreeze", "/fsfreeze", "/fsthaw", "/collapse", "/upgrade"];

static TABLE: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let parts = [plain(), files(), processes()];
    parts.into_iter().flatten().map(Row::any_query).collect()
});

fn plain() -> Vec<Row> {
    vec![
        Row::new(Method::GET, "/health", "envd_health", Call::Health)
            .does("See whether the sandbox is there")
            .open(),
        row(Method::GET, "/metrics", "envd_metrics", Call::Metrics).does("Tell what the sandbox uses"),
        row(Method::GET, "/envs", "envd_envs", Call::Envs).does("Tell the variables of its processes"),
        row(Method::GET, "/files", "envd_download", Call::Download).does("Send a file"),
        row(Method::POST, "/files", "envd_upload", Call::Upload).does("Take files in"),
        row(Method::POST, "/files/compose", "envd_compose", Call::Compose).does("Make one file of several"),
    ]
}

fn files() -> Vec<Row> {
    use filesystem::Method as Files;
    let rows = [
        ("/filesystem.Filesystem/Stat", "envd_files_stat", Files::Stat, "Tell of a file"),
        ("/filesystem.Filesystem/MakeDir", "envd_files_make_dir", Files::MakeDir, "Make a directory"),
        ("/filesystem.Filesystem/Move", "envd_files_move", Files::Move, "Move a file"),
        ("/filesystem.Filesystem/ListDir", "envd_files_list_dir", Files::ListDir, "List a directory"),
        ("/filesystem.Filesystem/Remove", "envd_files_remove", Files::Remove, "Remove a file"),
        (
            "/filesystem.Filesystem/WatchDir",
            "envd_files_watch_dir",
            Files::WatchDir,
            "Follow what changes in a directory",
        ),
        (
            "/filesystem.Filesystem/CreateWatcher",
            "envd_files_create_watcher",
            Files::CreateWatcher,
            "Begin to note what changes in a directory",
        ),
        (
            "/filesystem.Filesystem/GetWatcherEvents",
            "envd_files_get_watcher_events",
            Files::GetWatcherEvents,
            "Tell what was noted",
        ),
        (
            "/filesystem.Filesystem/RemoveWatcher",
            "envd_files_remove_watcher",
            Files::RemoveWatcher,
            "Note nothing more",
        ),
    ];
    rows.map(|(path, name, method, does)| row(Method::POST, path, name, Call::Filesystem(method)).does(does))
        .into()
}

fn processes() -> Vec<Row> {
    use process::Method as Processes;
    let rows = [
        ("/process.Process/Start", "envd_process_start", Processes::Start, "Start a process and follow it"),
        (
            "/process.Process/Connect",
            "envd_process_connect",
            Processes::Connect,
            "Follow a process that runs",
        ),
        ("/process.Process/List", "envd_process_list", Processes::List, "List processes"),
        (
            "/process.Process/Update",
            "envd_process_update",
            Processes::Update,
            "Change the size of a terminal",
        ),
        (
            "/process.Process/SendSignal",
            "envd_process_send_signal",
            Processes::SendSignal,
            "Send a process a signal",
        ),
        ("/process.Process/SendInput", "envd_process_send_input", Processes::SendInput, "Write to a process"),
        (
            "/process.Process/StreamInput",
            "envd_process_stream_input",
            Processes::StreamInput,
            "Write to a process piece by piece",
        ),
        (
            "/process.Process/CloseStdin",
            "envd_process_close_stdin",
            Processes::CloseStdin,
            "End the input of a process",
        ),
    ];
    rows.map(|(path, name, method, does)| row(Method::POST, path, name, Call::Process(method)).does(does))
        .into()
}

/// A row for callers with the sandbox's token. It takes as long as its own work does.
fn row(method: Method, path: &'static str, operation: &'static str, call: Call) -> Row {
    Row::new(method, path, operation, call).by_token().long()
}

/// Every route of the in-sandbox protocol.
pub(crate) fn table() -> &'static [Row] {
    &TABLE
}

impl Call {
    pub(super) fn of(head: &Parts) -> Result<Self, Refusal> {
        let path = clean(&percent_decode_str(head.uri.path()).decode_utf8_lossy());
        if INTERNAL.contains(&path.as_str()) {
            return Err(Refusal::Internal);
        }
        let rows = || table().iter().filter(|route| route.path == path);
        if let Some(route) = rows().find(|route| route.method == head.method) {
            return Ok(route.handler.clone());
        }
        let service = [FILESYSTEM, PROCESS].into_iter().find(|service| path.starts_with(service));
        match service {
            Some(service) if head.method == Method::POST => {
                return Ok(Self::Unknown(service, path[service.len()..].to_owned()));
            }
            None if rows().next().is_some() => {}
            _ => return Err(Refusal::new(StatusCode::NOT_FOUND, format!("there is no {path}"))),
        }
        let message = format!("{path} does not have {}", head.method);
        Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, message))
    }

    /// True if a signature in the query opens it as the token does.
    pub(super) fn may_be_signed(&self) -> bool {
        matches!(self, Self::Download | Self::Upload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(method: &str, path: &str) -> Result<Call, Refusal> {
        Call::of(&http::Request::builder().method(method).uri(path).body(()).unwrap().into_parts().0)
    }

    #[test]
    fn internal_routes_are_not_found_however_they_are_written() {
        for path in ["/init", "//init", "/init/", "/x/../init", "/%69nit", "/./freeze", "/upgrade?x=1"] {
            for method in ["GET", "POST"] {
                assert!(matches!(find(method, path), Err(Refusal::Internal)), "{method} {path}");
            }
        }
    }

    #[test]
    fn a_route_has_its_methods_and_no_others() {
        assert_eq!(find("GET", "/files?path=a").unwrap(), Call::Download);
        assert_eq!(find("POST", "/files").unwrap(), Call::Upload);
        let stat = Call::Filesystem(filesystem::Method::Stat);
        assert_eq!(find("POST", "/filesystem.Filesystem/Stat").unwrap(), stat);
        let told = |found: Result<Call, Refusal>| match found {
            Err(Refusal::Told { status, .. }) => status.as_u16(),
            other => panic!("{other:?}"),
        };
        assert_eq!((told(find("DELETE", "/files")), told(find("GET", "/nothing"))), (405, 404));
    }
}

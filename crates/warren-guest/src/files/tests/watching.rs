use std::io::Write;

use warren_wire::guest::{Frame, WatchEvent};

use super::*;

struct Watching {
    connection: Connection<UnixStream>,
}

impl Watching {
    fn start(scratch: &Scratch, recursive: bool) -> Self {
        let mut connection = open(FileOperation::Watch { path: (&scratch.path).into(), recursive });
        assert_eq!(connection.reply().unwrap(), Reply::Done);
        Self { connection }
    }

    /// Events up to one that is about `last`, as `Kind path` or `Kind path -> path`.
    fn until(&mut self, last: &str) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            let Reply::Changed(events) = self.connection.reply().unwrap() else { panic!("no events") };
            seen.extend(events.iter().map(text));
            if events.iter().any(|event| event.path == last.into()) {
                return seen;
            }
        }
    }
}

impl Watching {
    /// Everything that happened until now, as [`Watching::until`] tells it.
    fn flush(&mut self) -> Vec<String> {
        let nothing = Frame::header(FrameKind::Data, 0);
        self.connection.stream().write_all(&nothing).unwrap();
        let mut seen = Vec::new();
        loop {
            match self.connection.reply().unwrap() {
                Reply::Changed(events) => seen.extend(events.iter().map(text)),
                Reply::Done => return seen,
                other => panic!("unexpected {other:?}"),
            }
        }
    }
}

fn text(event: &WatchEvent) -> String {
    let renamed = event.renamed_to.as_ref().map(|to| format!(" -> {}", to.to_text())).unwrap_or_default();
    let away = if event.moved_away == Some(true) { " away" } else { "" };
    format!("{:?} {}{renamed}{away}", event.kind, event.path.to_text())
}

/// The last event of a sequence, which no other part of a test causes.
fn mark(scratch: &Scratch) {
    std::fs::create_dir(scratch.at("mark")).unwrap();
}

#[test]
fn the_life_of_a_file_is_told() {
    let scratch = Scratch::new();
    let mut watching = Watching::start(&scratch, false);
    std::fs::write(scratch.at("a"), "x").unwrap();
    std::fs::set_permissions(scratch.at("a"), PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::rename(scratch.at("a"), scratch.at("b")).unwrap();
    std::fs::remove_file(scratch.at("b")).unwrap();
    mark(&scratch);
    assert_eq!(
        watching.until("mark"),
        ["Created a", "Written a", "AttributesChanged a", "Renamed a -> b", "Removed b", "Created mark"]
    );
}

#[test]
fn new_directories_are_watched_with_what_is_in_them() {
    let scratch = Scratch::new();
    let mut watching = Watching::start(&scratch, true);
    std::fs::create_dir_all(scratch.at("x/y/z")).unwrap();
    std::fs::File::create(scratch.at("x/y/z/f")).unwrap();
    mark(&scratch);
    let seen = watching.until("mark");
    for path in ["x", "x/y", "x/y/z", "x/y/z/f"] {
        let count = seen.iter().filter(|event| **event == format!("Created {path}")).count();
        assert_eq!(count, 1, "{path} in {seen:?}");
    }
    std::fs::write(scratch.at("x/y/z/f"), "later").unwrap();
    assert_eq!(watching.until("x/y/z/f"), ["Written x/y/z/f"]);
}

#[test]
fn every_entry_of_trees_made_in_a_hurry_is_told_once() {
    let scratch = Scratch::new();
    let mut watching = Watching::start(&scratch, true);
    let making = {
        let top = scratch.path.clone();
        std::thread::spawn(move || {
            for tree in 0..60 {
                for branch in 0..5 {
                    let directory = top.join(format!("{tree}/{branch}/deep"));
                    std::fs::create_dir_all(&directory).unwrap();
                    std::fs::create_dir(directory.join("leaf")).unwrap();
                }
            }
            std::fs::create_dir(top.join("mark")).unwrap();
        })
    };
    let mut seen = watching.until("mark");
    making.join().unwrap();
    seen.sort();
    let total = seen.len();
    seen.dedup();
    assert_eq!((seen.len(), total), (60 * 16 + 1, 60 * 16 + 1));
}

#[test]
fn directories_that_exist_are_watched_only_if_asked() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.at("a/b")).unwrap();
    let mut flat = Watching::start(&scratch, false);
    let mut deep = Watching::start(&scratch, true);
    std::fs::create_dir(scratch.at("a/b/c")).unwrap();
    mark(&scratch);
    assert_eq!(flat.until("mark"), ["Created mark"]);
    assert_eq!(deep.until("mark"), ["Created a/b/c", "Created mark"]);
}

#[test]
fn moves_within_out_of_and_into_the_tree_are_told_apart() {
    let (scratch, outside) = (Scratch::new(), Scratch::new());
    std::fs::create_dir_all(scratch.at("a/sub")).unwrap();
    std::fs::create_dir_all(outside.at("in/sub")).unwrap();
    outside.file("in/sub/f", "", 0o644);
    let mut watching = Watching::start(&scratch, true);
    std::fs::rename(scratch.at("a"), scratch.at("b")).unwrap();
    std::fs::create_dir(scratch.at("b/sub/new")).unwrap();
    std::fs::rename(scratch.at("b"), outside.at("b")).unwrap();
    std::fs::rename(outside.at("in"), scratch.at("in")).unwrap();
    assert_eq!(
        watching.until("in/sub/f"),
        [
            "Renamed a -> b",
            "Created b/sub/new",
            "Removed b away",
            "Created in",
            "Created in/sub",
            "Created in/sub/f"
        ]
    );
    // What left is no longer watched; what came is.
    std::fs::create_dir(outside.at("b/unseen")).unwrap();
    std::fs::create_dir(scratch.at("in/sub/seen")).unwrap();
    assert_eq!(watching.until("in/sub/seen"), ["Created in/sub/seen"]);
}

#[test]
fn a_directory_replaced_by_one_of_the_same_name_is_watched_anew() {
    let (scratch, outside) = (Scratch::new(), Scratch::new());
    std::fs::create_dir(scratch.at("d")).unwrap();
    let mut watching = Watching::start(&scratch, true);
    std::fs::rename(scratch.at("d"), outside.at("d")).unwrap();
    std::fs::create_dir(scratch.at("d")).unwrap();
    assert_eq!(watching.until("d").first().unwrap(), "Removed d away");
    std::thread::sleep(Duration::from_millis(50));
    std::fs::create_dir(scratch.at("d/new")).unwrap();
    watching.until("d/new");
}

#[test]
fn a_question_is_answered_when_all_before_it_is_told() {
    let (scratch, outside) = (Scratch::new(), Scratch::new());
    let mut watching = Watching::start(&scratch, true);
    assert_eq!(watching.flush(), [""; 0]);
    for round in 0..200 {
        std::fs::create_dir(scratch.at(&format!("{round}"))).unwrap();
        assert_eq!(watching.flush(), [format!("Created {round}")]);
        // Half a rename is a whole change once nothing more can come of it.
        std::fs::rename(scratch.at(&format!("{round}")), outside.at(&format!("{round}"))).unwrap();
        assert_eq!(watching.flush(), [format!("Removed {round} away")]);
    }
    let nothing = Frame::header(FrameKind::Data, 0);
    let both = [nothing, nothing].concat();
    watching.connection.stream().write_all(&both).unwrap();
    assert_eq!(watching.connection.reply().unwrap(), Reply::Done);
    assert_eq!(watching.connection.reply().unwrap(), Reply::Done);
}

#[test]
fn a_small_upload_in_place_is_made_given_and_written_once_each() {
    let scratch = Scratch::new();
    let mut watching = Watching::start(&scratch, false);
    for round in 0..50 {
        let name = format!("{round}");
        let path = scratch.bytes(&name);
        let (mode, parents) = (WriteMode::Truncate, true);
        let operation = FileOperation::Write { path, mode, permissions: None, parents };
        send(open_for_user(operation), b"hello").unwrap();
        let expected = ["Created", "AttributesChanged", "Written"].map(|kind| format!("{kind} {name}"));
        assert_eq!(watching.flush(), expected);
    }
}

#[test]
fn what_was_written_in_a_new_directory_before_it_was_watched_is_told() {
    let scratch = Scratch::new();
    let mut watching = Watching::start(&scratch, true);
    for round in 0..200 {
        std::fs::create_dir(scratch.at(&format!("{round}"))).unwrap();
        std::fs::write(scratch.at(&format!("{round}/f")), "x").unwrap();
        let seen = watching.flush();
        for expected in
            [format!("Created {round}"), format!("Created {round}/f"), format!("Written {round}/f")]
        {
            assert!(seen.contains(&expected), "{expected} in {seen:?}");
        }
    }
}

#[test]
fn a_watch_takes_questions_only() {
    let scratch = Scratch::new();
    let mut watching = Watching::start(&scratch, false);
    watching.connection.send_data(b"x").unwrap();
    assert_eq!(failed(watching.connection.reply()).unwrap_err().code, FailureCode::Invalid);
}

#[test]
fn writes_in_a_row_are_told_once() {
    let scratch = Scratch::new();
    let mut watching = Watching::start(&scratch, false);
    let mut log = std::fs::File::create(scratch.at("log")).unwrap();
    for _ in 0..1000 {
        log.write_all(b"line\n").unwrap();
    }
    mark(&scratch);
    let mut done = false;
    while !done {
        let Reply::Changed(events) = watching.connection.reply().unwrap() else { panic!("no events") };
        assert!(events.windows(2).all(|pair| pair[0] != pair[1]), "{events:?}");
        done = events.iter().any(|event| event.path == "mark".into());
    }
}

#[test]
fn more_directories_than_can_be_watched_are_told() {
    let scratch = Scratch::new();
    for number in 0..8300 {
        std::fs::create_dir(scratch.at(&format!("{number}"))).unwrap();
    }
    let mut watching = Watching::start(&scratch, true);
    assert_eq!(watching.until(""), ["Overflowed "]);
}

#[test]
fn a_watch_ends_with_its_directory() {
    let scratch = Scratch::new();
    let mut watching = Watching::start(&scratch, true);
    // Someone still stands in it.
    let _held = std::fs::File::open(&scratch.path).unwrap();
    std::fs::remove_dir(&scratch.path).unwrap();
    assert_eq!(failed(watching.connection.reply()).unwrap_err().code, FailureCode::NotFound);
    assert!(watching.connection.next_frame().unwrap().is_none());
}

#[test]
fn a_watch_ends_with_its_connection() {
    let scratch = Scratch::new();
    let (host, agent) = UnixStream::pair().unwrap();
    let serving = std::thread::spawn(move || answer(agent));
    let operation = FileOperation::Watch { path: (&scratch.path).into(), recursive: true };
    let call = FileCall { user: None, operation, as_root: None };
    let mut connection = Connection::open(host, &Request::File(call)).unwrap();
    connection.reply().unwrap();
    drop(connection);
    serving.join().unwrap();
}

#[test]
fn only_directories_are_watched() {
    let scratch = Scratch::new();
    let path = scratch.file("a", "", 0o644);
    assert_eq!(refusal(FileOperation::Watch { path, recursive: false }), FailureCode::WrongKind);
    let path = scratch.bytes("none");
    assert_eq!(refusal(FileOperation::Watch { path, recursive: false }), FailureCode::NotFound);
}

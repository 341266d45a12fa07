use warren_face::route::schema::{flag, matching, number, text_of};
use warren_face::route::{Events, Parameter};
use warren_wire::api::{
    ChangeMode, ChangeOwner, FileChange, FileInfo, FileList, GrepResult, MakeDirectory, MakeSymlink,
    MoveFile, PackFiles, Unpacked, Written,
};

use super::Route;
use crate::handlers::files::{change, look, pack, transfer, unpack};

pub(super) fn rows() -> Vec<Route> {
    [transfers(), archives(), looks(), changes()].into_iter().flatten().collect()
}

/// The path of a file, and the user whose rights count.
fn of_file(route: Route) -> Route {
    let path =
        Parameter::query("path", "The file. A relative path starts at the user's home.", text_of(1, 4095));
    as_user(route.parameter(path.required()))
}

fn as_user(route: Route) -> Route {
    let about = "Whose rights count: a name, or `uid[:gid]`. Left out: the sandbox's own user's.";
    route.parameter(Parameter::query("user", about, text_of(1, 255)))
}

fn limited(route: Route) -> Route {
    route.parameter(Parameter::query("limit", "At most so many. Left out: 1000.", number(1, look::MOST)))
}

fn transfers() -> Vec<Route> {
    vec![
        of_file(Route::get("/v1/sandboxes/{sandbox_id}/files", "read_file", transfer::read))
            .does("Read a file, or a part of it")
            .parameter(Parameter::header(
                "Range",
                "One range of bytes.",
                matching("^bytes=([0-9]+-[0-9]*|-[0-9]+)$"),
            ))
            .long()
            .answers_as(200, "The file.", "application/octet-stream")
            .answers_as(206, "The part that was asked for.", "application/octet-stream")
            .with_header("Content-Range", "Which part it is.")
            .fails(416)
            .works_inside(),
        of_file(Route::head("/v1/sandboxes/{sandbox_id}/files", "head_file", transfer::head))
            .does("See how large a file is")
            .answers_nothing(200, "`Content-Length` says it.")
            .works_inside(),
        of_file(Route::put("/v1/sandboxes/{sandbox_id}/files", "write_file", transfer::write))
            .does("Write a file. One that is replaced keeps its content until all has arrived")
            .takes_bytes()
            .parameter(Parameter::query("append", "Write behind what is there.", flag()))
            .parameter(Parameter::query(
                "mode",
                "Permission bits of a new file, in octal. Left out: 0644.",
                matching("^[0-7]{3,4}$"),
            ))
            .parameter(Parameter::query("parents", "Make missing directories above it.", flag()))
            .long()
            .answers::<Written>(200, "It is written.")
            .works_inside(),
        of_file(Route::delete("/v1/sandboxes/{sandbox_id}/files", "remove_file", change::remove))
            .does("Remove a file or directory")
            .parameter(Parameter::query("recursive", "With all that is in it.", flag()))
            .long()
            .answers_nothing(204, "It is gone.")
            .works_inside(),
    ]
}

fn archives() -> Vec<Route> {
    let directory = || {
        let about = "The directory. A relative path starts at the user's home.";
        Parameter::query("path", about, text_of(1, 4095)).required()
    };
    vec![
        as_user(Route::get("/v1/sandboxes/{sandbox_id}/files/archive", "pack_files", pack::pack))
            .does("Read a directory as a tar file")
            .parameter(directory())
            .long()
            .answers_as(200, "Its files, directories and symbolic links.", "application/x-tar")
            .works_inside(),
        Route::post("/v1/sandboxes/{sandbox_id}/files/archive", "pack_some_files", pack::pack_some)
            .does("Read some files of a directory as a tar file")
            .takes::<PackFiles>()
            .long()
            .answers_as(200, "Those of them that exist.", "application/x-tar")
            .works_inside(),
        as_user(Route::put("/v1/sandboxes/{sandbox_id}/files/archive", "unpack_files", unpack::unpack))
            .also_at("/v1/sandboxes/{sandbox_id}/archive")
            .does("Unpack a tar file below a directory. The journal tells it as one, and one undo takes it back")
            .takes_bytes()
            .parameter(
                Parameter::query(
                    "path",
                    "The directory, which is made if it is missing. A relative path starts at the user's home.",
                    text_of(1, 4095),
                )
                .required(),
            )
            .long()
            .answers::<Unpacked>(200, "It is unpacked.")
            .works_inside(),
    ]
}

fn looks() -> Vec<Route> {
    vec![
        of_file(Route::get("/v1/sandboxes/{sandbox_id}/files/stat", "stat_file", look::stat))
            .does("Look at a file")
            .parameter(Parameter::query(
                "follow",
                "If it is a symbolic link, look at what it leads to.",
                flag(),
            ))
            .answers::<FileInfo>(200, "What is known of it.")
            .works_inside(),
        limited(of_file(Route::get("/v1/sandboxes/{sandbox_id}/files/list", "list_files", look::list)))
            .does("List a directory")
            .parameter(Parameter::query(
                "depth",
                "How deep to go. Left out: 1, its own entries.",
                number(1, look::MOST_DEPTH),
            ))
            .long()
            .answers::<FileList>(200, "Its entries, those of a directory after the directory.")
            .works_inside(),
        limited(searching(Route::get("/v1/sandboxes/{sandbox_id}/files/glob", "glob_files", look::glob)))
            .does("Find files by name")
            .parameter(
                Parameter::query(
                    "pattern",
                    "`*`, `?`, `[…]`, `{a,b}` and `**`, compared with paths below `path`.",
                    text_of(1, 4095),
                )
                .required(),
            )
            .answers::<FileList>(200, "Those that match.")
            .works_inside(),
        limited(searching(Route::get("/v1/sandboxes/{sandbox_id}/files/grep", "grep_files", look::grep)))
            .does("Find lines in files")
            .parameter(
                Parameter::query("pattern", "A regular expression, without look-around.", text_of(1, 4095))
                    .required(),
            )
            .parameter(Parameter::query(
                "ignore_case",
                "Take small and capital letters for the same.",
                flag(),
            ))
            .parameter(Parameter::query(
                "files",
                "Only files whose path below `path` matches this.",
                text_of(1, 4095),
            ))
            .answers::<GrepResult>(200, "Lines that match.")
            .works_inside(),
        of_file(Route::get("/v1/sandboxes/{sandbox_id}/files/watch", "watch_files", look::watch))
            .does("Follow what changes in a directory")
            .parameter(Parameter::query("recursive", "And in all directories below.", flag()))
            .long()
            .answers_events(
                "What changes, until the reader goes.",
                Events::named("WatchEvent", "`watching` once it begins, then `changed` for each change.")
                    .empty_event("watching")
                    .event::<FileChange>("changed"),
            )
            .works_inside(),
    ]
}

fn searching(route: Route) -> Route {
    let path = Parameter::query("path", "Where to look.", text_of(1, 4095)).required().formerly("root");
    as_user(route.parameter(path)).long()
}

fn changes() -> Vec<Route> {
    vec![
        Route::post("/v1/sandboxes/{sandbox_id}/files/mkdir", "make_directory", change::make_directory)
            .does("Make a directory")
            .takes::<MakeDirectory>()
            .answers_nothing(204, "It is there.")
            .works_inside(),
        Route::post("/v1/sandboxes/{sandbox_id}/files/move", "move_file", change::rename)
            .does("Move or rename a file")
            .takes::<MoveFile>()
            .answers_nothing(204, "It was moved.")
            .works_inside(),
        Route::post("/v1/sandboxes/{sandbox_id}/files/chmod", "change_file_mode", change::set_mode)
            .does("Change a file's permission bits")
            .takes::<ChangeMode>()
            .answers_nothing(204, "They were changed.")
            .works_inside(),
        Route::post("/v1/sandboxes/{sandbox_id}/files/chown", "change_file_owner", change::set_owner)
            .does("Give a file to another owner")
            .takes::<ChangeOwner>()
            .answers_nothing(204, "It was given.")
            .works_inside(),
        Route::post("/v1/sandboxes/{sandbox_id}/files/symlink", "make_symlink", change::make_symlink)
            .does("Make a symbolic link")
            .takes::<MakeSymlink>()
            .answers_nothing(204, "It is there.")
            .works_inside(),
    ]
}

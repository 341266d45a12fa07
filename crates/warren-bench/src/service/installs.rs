//! Programs that write many files: the same commands on the same inputs, inside a sandbox and
//! outside, on the same disk. No network is needed: the index is a directory, the packages are
//! files beside it, and the repository is cloned from a path.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use warren_wire::client::Client;

use super::server::Server;
use super::{create_plain, exec};
use crate::errand::output_of;
use crate::rounds::{Contender, race_for};
use crate::session::Session;
use crate::statistics::Lap;

/// Makes a wheel with its index, packages with their lock file, and a repository.
const PREPARE: &str = include_str!("installs/prepare.py");
const INSIDE: &str = "/home/user/work";
/// The same surroundings on both sides.
const SURROUNDINGS: &str = "env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=$PWD";

/// A command that writes below `$OUT`.
struct Work {
    case: &'static str,
    /// Not counted.
    before: &'static str,
    command: &'static str,
}

const WORKS: [Work; 3] = [
    Work {
        case: "install_pip",
        before: "true",
        command: "/usr/bin/python3 -m pip install --quiet --disable-pip-version-check --no-cache-dir \
                  --index-url file://$PWD/index --target $OUT bench-wheel",
    },
    Work {
        case: "install_npm",
        before: "cp -r tree $OUT",
        command: "npm ci --prefix $OUT --offline --no-audit --no-fund --silent --cache $PWD/$OUT/cache",
    },
    Work { case: "install_git", before: "true", command: "git clone --quiet file://$PWD/repository $OUT" },
];

impl Work {
    /// Every lap writes to a new place, since making files is slow on some disks after many were
    /// removed.
    fn lap(&self, number: usize, run: impl Fn(&str) -> anyhow::Result<()>) -> anyhow::Result<Lap> {
        let out = format!("OUT={}-{number};", self.case);
        run(&format!("{out} {}", self.before))?;
        let begun = Instant::now();
        run(&format!("{out} {SURROUNDINGS} {}", self.command))?;
        Ok(Lap::of(begun.elapsed()))
    }
}

pub(super) fn measure(session: &mut Session<'_>) -> anyhow::Result<()> {
    session.progress("installs: making packages");
    let folder = session.ground.file("installs");
    let (outside, archive) = (folder.join("work"), folder.join("work.tar"));
    fs::create_dir_all(&outside)?;
    let made =
        output_of(Command::new("/usr/bin/python3").args(["-c", PREPARE]).arg(&outside)).and_then(|_| {
            output_of(Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(&outside).arg("."))
        });
    if let Err(error) = made {
        session.skip("installs", format!("{error:#}"));
        return Ok(());
    }
    let server = Server::start(&session.plan.warren, &session.ground.file("service"), &[])?;
    let client = &server.client()?;
    let id = &create_plain(client)?;
    exec(client, id, ["/bin/mkdir", INSIDE])?;
    client.unpack_files(id, INSIDE, None, &mut File::open(&archive)?)?;
    for work in WORKS {
        let (mut inner, mut outer) = (0, 0);
        let field = vec![
            Contender::new("inside", || {
                inner += 1;
                work.lap(inner, |script| inside(client, id, script))
            }),
            Contender::new("outside", || {
                outer += 1;
                work.lap(outer, |script| run_outside(&outside, script))
            }),
        ];
        race_for(session, work.case, session.plan.sizes.long_rounds, field)?;
    }
    Ok(())
}

fn inside(client: &Client, id: &str, script: &str) -> anyhow::Result<()> {
    exec(client, id, ["/bin/sh", "-ec", &format!("cd {INSIDE}; {script}")]).map(drop)
}

fn run_outside(folder: &Path, script: &str) -> anyhow::Result<()> {
    output_of(Command::new("/bin/sh").args(["-ec", script]).current_dir(folder)).map(drop)
}

//! Carries out what was decided.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tar::{EntryType, Header};
use warren_core::ErrorCode;
use warren_wire::api::PackFiles;
use warren_wire::client::Client;

use super::here::{self, Hashing};
use super::plan::{Act, Clash, Deed, Plan, Side, allowed, plan};
use super::rules::Rules;
use super::there;
use super::{Base, Direction, Known, Prefer, Stamp, is_of_git};
use crate::copying::pack::{Archive, Exactly, Failure, failure, streaming};
use crate::copying::place::Place;
use crate::error::{CliError, is};
use crate::ui::Progress;

/// Names in one request for files.
const MOST_NAMES: usize = 4096;

/// Removals that are more than half of all files, and more than these, are asked about.
const FEW: usize = 10;

/// A directory, a sandbox, and what to carry between them.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    pub(crate) client: &'a Client,
    pub(crate) sandbox: &'a str,
    /// The directory of this machine, by its one name.
    pub(crate) directory: PathBuf,
    /// The directory of the sandbox, as an absolute path.
    pub(crate) remote: String,
    pub(crate) user: Option<String>,
    pub(crate) direction: Direction,
    pub(crate) prefer: Option<Prefer>,
    pub(crate) exclude: Vec<String>,
    /// Take git's own directory along, if the sandbox has none there.
    pub(crate) with_git: bool,
    /// Remove most of a side's files if the other has removed them.
    pub(crate) delete: bool,
    /// Change nothing.
    pub(crate) dry_run: bool,
}

/// The paths that were carried.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Outcome {
    pub(crate) sent: Vec<String>,
    pub(crate) brought: Vec<String>,
    pub(crate) removed_here: Vec<String>,
    pub(crate) removed_there: Vec<String>,
    pub(crate) conflicts: Vec<Clash>,
    /// Paths that are neither files, directories nor links that stay inside.
    pub(crate) left_out: Vec<String>,
}

impl Outcome {
    pub(crate) fn is_empty(&self) -> bool {
        let lists = [&self.sent, &self.brought, &self.removed_here, &self.removed_there];
        lists.iter().all(|list| list.is_empty()) && self.conflicts.is_empty()
    }
}

impl Work<'_> {
    /// Carries everything over once. What was done is remembered even if the rest failed.
    pub(crate) fn run(&self, base: &mut Base) -> Result<Outcome, CliError> {
        let mut rules = Rules::new(&self.directory, &self.exclude);
        let mut there = self.look_there(&mut rules)?;
        let mut here = here::Look {
            top: &self.directory,
            rules: &mut rules,
            side: Side::new(),
            left_out: BTreeSet::new(),
        };
        here.all()?;
        let (here, mut left_out) = (here.side, here.left_out);
        left_out.append(&mut there.1);
        here::settle(&self.directory, &mut base.files, &here)?;
        let sides = Sides { here, there: there.0 };
        let mut plan = plan(&base.files, (&sides.here, &sides.there), &left_out, self.direction, self.prefer);
        // What this machine keeps from the sandbox is not the sandbox's to say.
        plan.acts.retain(|name, act| !is_guard(name) || !matches!(act, Act::Fetch | Act::RemoveHere));
        self.check_removals(&plan, base.files.len())?;
        let git = self.with_git && !there.2 && self.directory.join(".git").is_dir();
        let mut run = Run { work: self, base, sides, rules, git, outcome: Outcome::default() };
        run.outcome.left_out = left_out.into_iter().collect();
        let done = run.all(plan);
        let outcome = run.outcome;
        if !self.dry_run {
            base.save(&self.directory, &format!("{}:{}", self.sandbox, self.remote))?;
        }
        done.map(|()| outcome)
    }

    fn look_there(&self, rules: &mut Rules) -> Result<(Side, BTreeSet<String>, bool), CliError> {
        let mut look = there::Look {
            client: self.client,
            sandbox: self.sandbox,
            top: &self.remote,
            user: self.user.as_deref(),
            rules,
            side: Side::new(),
            left_out: BTreeSet::new(),
            has_git: false,
        };
        look.all()?;
        Ok((look.side, look.left_out, look.has_git))
    }

    /// A side that lost most of its files has more likely lost its disk.
    fn check_removals(&self, plan: &Plan, known: usize) -> Result<(), CliError> {
        for (removal, side, other) in [
            (Act::RemoveThere, "this directory", "the sandbox"),
            (Act::RemoveHere, "the sandbox", "this directory"),
        ] {
            let count = plan.acts.values().filter(|act| **act == removal).count();
            if !self.delete && count > FEW && count * 2 > known {
                let text =
                    format!("{count} of {known} files are gone from {side}, and nothing was carried over");
                return Err(CliError::new(text).hint(format!("--delete removes them from {other} too")));
            }
        }
        Ok(())
    }
}

/// Tells whether a file says what the sandbox does not get.
fn is_guard(name: &str) -> bool {
    name.rsplit('/').next() == Some(".warrenignore")
}

struct Sides {
    here: Side,
    there: Side,
}

/// A work on its way.
struct Run<'a, 'b> {
    work: &'a Work<'a>,
    base: &'b mut Base,
    sides: Sides,
    rules: Rules,
    git: bool,
    outcome: Outcome,
}

/// A file that was sent: its stamp here, and its digest.
type Sent = (String, Stamp, String);

impl Run<'_, '_> {
    fn all(&mut self, plan: Plan) -> Result<(), CliError> {
        self.outcome.conflicts = plan.clashes;
        let mut acts = plan.acts;
        self.compare(&mut acts)?;
        let of = |wanted: Act| {
            let names = acts.iter().filter(move |(_, act)| **act == wanted).map(|(name, _)| name.clone());
            names.collect::<Vec<String>>()
        };
        if self.work.dry_run {
            self.outcome.sent = of(Act::Send);
            self.outcome.brought = of(Act::Fetch);
            self.outcome.removed_here = of(Act::RemoveHere);
            self.outcome.removed_there = of(Act::RemoveThere);
            return Ok(());
        }
        for name in of(Act::Forget) {
            self.base.files.remove(&name);
        }
        self.remove_here(&of(Act::RemoveHere))?;
        self.fetch(&of(Act::Fetch))?;
        self.remove_there(&of(Act::RemoveThere))?;
        self.send(&of(Act::Send))
    }

    /// Finds out what became of files that both sides may have changed.
    fn compare(&mut self, acts: &mut BTreeMap<String, Act>) -> Result<(), CliError> {
        let names: Vec<String> =
            acts.iter().filter(|(_, act)| **act == Act::Compare).map(|(name, _)| name.clone()).collect();
        let mut theirs = BTreeMap::new();
        for name in &names {
            if let Some(target) = self.sides.there.get(name).and_then(|stamp| stamp.link.as_ref()) {
                theirs.insert(name.clone(), here::digest_of_link(target));
            }
        }
        let files: Vec<String> = names.iter().filter(|name| !theirs.contains_key(*name)).cloned().collect();
        self.unpack(&files, |_, name, content| {
            let mut hashing = Hashing::new(content);
            io::copy(&mut hashing, &mut io::sink()).map_err(CliError::new)?;
            theirs.insert(name.to_owned(), hashing.digest());
            Ok(())
        })?;
        for name in names {
            acts.remove(&name);
            // A file that has vanished meanwhile is told the next time.
            let Some(theirs) = theirs.get(&name) else { continue };
            match self.settled(&name, theirs)? {
                Settled::Same => {}
                Settled::To(act) if allowed(act, self.work.direction) => drop(acts.insert(name, act)),
                Settled::To(_) => {}
                Settled::Clash(here, there) => {
                    self.outcome.conflicts.push(Clash { path: name, here, there });
                }
            }
        }
        Ok(())
    }

    fn settled(&mut self, name: &str, theirs: &str) -> Result<Settled, CliError> {
        let known = self.base.files.get(name).map(|known| known.digest.clone());
        let was = known.as_deref();
        let changed = |new: bool| if new { Deed::New } else { Deed::Changed };
        let Some(here) = self.sides.here.get(name) else {
            return Ok(if was == Some(theirs) {
                Settled::To(Act::RemoveThere)
            } else {
                Settled::Clash(Deed::Removed, Deed::Changed)
            });
        };
        let top = &self.work.directory;
        let ours = here::digest(top, name, here).map_err(|error| CliError::at(&top.join(name), error))?;
        let Some(there) = self.sides.there.get(name) else { return Ok(Settled::Same) };
        if ours == theirs && here.executable == there.executable {
            let known = Known { here: here.clone(), there: there.clone(), digest: ours, sure: true };
            self.base.files.insert(name.to_owned(), known);
            return Ok(Settled::Same);
        }
        let there_same = self.base.files.get(name).is_some_and(|known| known.there == *there);
        if was == Some(theirs) && there_same {
            return Ok(Settled::To(Act::Send));
        }
        Ok(Settled::Clash(changed(was.is_none()), changed(was.is_none())))
    }

    fn remove_here(&mut self, names: &[String]) -> Result<(), CliError> {
        let top = &self.work.directory;
        let place = Place::open(top).map_err(|error| CliError::at(top, error))?;
        for name in names {
            if !self.is_untouched(name) {
                self.clash(name, Deed::Changed, Deed::Removed);
                continue;
            }
            place.remove(Path::new(name)).map_err(|error| CliError::at(&top.join(name), error))?;
            self.base.files.remove(name);
            self.outcome.removed_here.push(name.clone());
        }
        Ok(())
    }

    /// Tells whether a file of this machine is as it was when it was looked at.
    fn is_untouched(&self, name: &str) -> bool {
        here::look(&self.work.directory, name).as_ref() == self.sides.here.get(name)
    }

    fn clash(&mut self, name: &str, here: Deed, there: Deed) {
        self.outcome.conflicts.push(Clash { path: name.to_owned(), here, there });
    }

    fn fetch(&mut self, names: &[String]) -> Result<(), CliError> {
        let top = self.work.directory.clone();
        let place = Place::open(&top).map_err(|error| CliError::at(&top, error))?;
        let (links, files): (Vec<String>, Vec<String>) = names
            .iter()
            .cloned()
            .partition(|name| self.sides.there.get(name).is_some_and(|stamp| stamp.link.is_some()));
        for name in links {
            let target = self.sides.there.get(&name).and_then(|stamp| stamp.link.clone()).unwrap_or_default();
            if !self.is_untouched(&name) {
                self.clash(&name, Deed::Changed, Deed::Changed);
                continue;
            }
            place.link(Path::new(&name), &target).map_err(|error| CliError::at(&top.join(&name), error))?;
            self.fetched(&name, here::digest_of_link(&target));
        }
        self.unpack(&files, |run, name, content| {
            if !run.is_untouched(name) {
                run.clash(name, Deed::Changed, Deed::Changed);
                return Ok(());
            }
            let executable = run.sides.there.get(name).is_some_and(|stamp| stamp.executable);
            let mut hashing = Hashing::new(content);
            place
                .put(Path::new(name), mode(&top.join(name), executable), &mut hashing)
                .map_err(|error| CliError::at(&top.join(name), error))?;
            run.fetched(name, hashing.digest());
            Ok(())
        })
    }

    /// Remembers a file that was brought.
    fn fetched(&mut self, name: &str, digest: String) {
        if let (Some(here), Some(there)) =
            (here::look(&self.work.directory, name), self.sides.there.get(name).cloned())
        {
            self.base.files.insert(name.to_owned(), Known { here, there, digest, sure: true });
        }
        self.outcome.brought.push(name.to_owned());
    }

    /// Reads files of the sandbox, a few thousand with a call.
    fn unpack(
        &mut self,
        names: &[String],
        mut each: impl FnMut(&mut Self, &str, &mut dyn Read) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let work = self.work;
        for some in names.chunks(MOST_NAMES) {
            let wanted: BTreeSet<&str> = some.iter().map(String::as_str).collect();
            let body = PackFiles { path: work.remote.clone(), user: work.user.clone(), files: some.to_vec() };
            let mut archive = work.client.pack_some_files(work.sandbox, &body)?;
            let progress = Progress::new();
            let mut archive = tar::Archive::new(progress.watch(&mut archive, &work.remote));
            for entry in archive.entries().map_err(CliError::new)? {
                let mut entry = entry.map_err(CliError::new)?;
                let path = entry.path().map_err(CliError::new)?.into_owned();
                // Only what was asked for, and as what it was asked for.
                let name = path.to_str().filter(|name| wanted.contains(name) && !is_of_git(name));
                if let Some(name) = name.filter(|_| entry.header().entry_type() == EntryType::Regular) {
                    each(self, name, &mut entry)?;
                }
            }
        }
        Ok(())
    }

    fn remove_there(&mut self, names: &[String]) -> Result<(), CliError> {
        for name in names {
            self.delete_there(name)?;
            self.base.files.remove(name);
            self.outcome.removed_there.push(name.clone());
        }
        Ok(())
    }

    fn delete_there(&self, name: &str) -> Result<(), CliError> {
        let work = self.work;
        let path = format!("{}/{name}", work.remote);
        match work.client.remove_file(work.sandbox, &path, work.user.as_deref()) {
            Err(error) if is(&error, ErrorCode::PathNotFound) => Ok(()),
            other => Ok(other?),
        }
    }

    /// Sends all files with one call, and then looks at how they are there.
    fn send(&mut self, names: &[String]) -> Result<(), CliError> {
        if names.is_empty() && !self.git {
            return Ok(());
        }
        for name in names {
            // A file that is replaced keeps its permissions.
            let differs = |there: &Stamp| {
                self.sides.here.get(name).map(|here| here.executable) != Some(there.executable)
            };
            if self.sides.there.get(name).is_some_and(differs) {
                self.delete_there(name)?;
            }
        }
        let (work, git) = (self.work, self.git);
        let mut sent: Vec<Sent> = Vec::new();
        let progress = Progress::new();
        streaming(
            |archive| {
                for name in names {
                    sent.extend(put(archive, &work.directory, name)?);
                }
                if git { put_git(archive, &work.directory, Path::new(".git")) } else { Ok(()) }
            },
            |content| {
                let mut counted = progress.watch(content, &work.remote);
                Ok(work.client.unpack_files(
                    work.sandbox,
                    &work.remote,
                    work.user.as_deref(),
                    &mut counted,
                )?)
            },
        )?;
        drop(progress);
        let there = work.look_there(&mut self.rules)?.0;
        for (name, here, digest) in sent {
            match there.get(&name).filter(|there| there.size == here.size && there.link == here.link) {
                Some(there) => {
                    let known = Known { here, there: there.clone(), digest, sure: false };
                    self.base.files.insert(name.clone(), known);
                }
                // Somebody has changed it already: the next time it is compared.
                None => drop(self.base.files.remove(&name)),
            }
            self.outcome.sent.push(name);
        }
        Ok(())
    }
}

/// The answer to a comparison.
enum Settled {
    Same,
    To(Act),
    Clash(Deed, Deed),
}

/// The mode of a file that is brought: of one that is replaced its own, but for who may run it.
fn mode(path: &Path, executable: bool) -> u32 {
    let readable = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file);
    let mode = readable.map_or(0o644, |about| about.mode() & 0o666);
    if executable { mode | ((mode & 0o444) >> 2) } else { mode }
}

/// Puts a file or link into an archive; nothing if it is gone.
fn put(archive: &mut Archive, top: &Path, name: &str) -> Result<Option<Sent>, Failure> {
    let path = top.join(name);
    let failed = |error| failure(&path, error);
    let about = match fs::symlink_metadata(&path) {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let Some(stamp) = here::stamp(&path, name, &about) else { return Ok(None) };
    let mut header = Header::new_gnu();
    if let Some(target) = &stamp.link {
        header.set_entry_type(EntryType::Symlink);
        header.set_size(0);
        archive.append_link(&mut header, name, target).map_err(failed)?;
        let digest = here::digest_of_link(target);
        return Ok(Some((name.to_owned(), stamp, digest)));
    }
    let file = here::open(&path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    let Some(stamp) = here::stamp(&path, name, &about) else { return Ok(None) };
    header.set_mode(about.permissions().mode() & 0o777);
    header.set_size(stamp.size);
    let mut content = Hashing::new(Exactly::new(file, stamp.size));
    archive.append_data(&mut header, name, &mut content).map_err(failed)?;
    Ok(Some((name.to_owned(), stamp, content.digest())))
}

/// Puts git's own directory into an archive, without links.
fn put_git(archive: &mut Archive, top: &Path, below: &Path) -> Result<(), Failure> {
    let directory = top.join(below);
    for entry in fs::read_dir(&directory).map_err(|error| failure(&directory, error))? {
        let entry = entry.map_err(|error| failure(&directory, error))?;
        let name = below.join(entry.file_name());
        let path = top.join(&name);
        let failed = |error| failure(&path, error);
        let kind = entry.file_type().map_err(failed)?;
        let mut header = Header::new_gnu();
        if kind.is_dir() {
            header.set_entry_type(EntryType::Directory);
            header.set_size(0);
            archive.append_data(&mut header, &name, io::empty()).map_err(failed)?;
            put_git(archive, top, &name)?;
        } else if kind.is_file() {
            let file = here::open(&path).map_err(failed)?;
            let about = file.metadata().map_err(failed)?;
            header.set_mode(about.permissions().mode() & 0o777);
            header.set_size(about.len());
            archive.append_data(&mut header, &name, Exactly::new(file, about.len())).map_err(failed)?;
        }
    }
    Ok(())
}

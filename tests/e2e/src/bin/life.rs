//! One step of a sandbox's life in a process of its own, so that a test can kill that process half way:
//! `life DATA_DIR CRASH_POINT halt|resume|seal ID`.

use std::path::Path;
use std::process::ExitCode;

use warren_core::{CreateRequest, Isolation, Layered, OwnerBond, RootState, SandboxId};
use warren_e2e::causes;
use warren_isolate::{Native, NativeOptions};
use warren_store::TemplateStore;

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match step(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write;
            drop(writeln!(std::io::stderr(), "{}", causes(&*error)));
            ExitCode::FAILURE
        }
    }
}

fn step(words: &[String]) -> Result<(), Failure> {
    let [data_dir, point, action, id] = words else { return Err("four words are needed".into()) };
    let data_dir = Path::new(data_dir);
    let options = NativeOptions { crash_at: Some(point.parse()?), ..NativeOptions::at(data_dir) };
    let native = Native::open(options)?;
    let id: SandboxId = id.parse()?;
    match action.as_str() {
        "halt" => Ok(native.halt(&id)?),
        "resume" => {
            let found = native.list()?.into_iter().find(|found| found.id == id).ok_or("it is not listed")?;
            let template = TemplateStore::open(data_dir)?.get(&found.spec.template)?;
            let request = template.request(id, found.spec, OwnerBond::Outlives);
            native.create(CreateRequest { state: RootState::Kept, ..request })?;
            Ok(())
        }
        "seal" => {
            let found = native.list()?.into_iter().find(|found| found.id == id).ok_or("it is not listed")?;
            native.seal(&id, &data_dir.join("sealed"), found.root.trees())?;
            Ok(())
        }
        other => Err(format!("`{other}` is no step").into()),
    }
}

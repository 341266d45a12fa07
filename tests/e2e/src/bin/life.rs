//! One step of a sandbox's life in a process of its own, so that a test can kill that process half
//! way: `life DATA_DIR CRASH_POINT create|resume|halt|seal|destroy ID [PLACE]`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use warren_core::{
    CreateRequest, Isolation, Layered, OwnerBond, RootState, SandboxId, SandboxSpec, TemplateName,
};
use warren_e2e::causes;
use warren_isolate::{Native, NativeOptions};
use warren_store::TemplateStore;

type Failure = Box<dyn std::error::Error>;

/// How long what goes on in the background may take.
const PATIENCE: Duration = Duration::from_secs(60);

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
    let [data_dir, point, action, id, rest @ ..] = words else { return Err("four words are needed".into()) };
    let data_dir = Path::new(data_dir);
    let options = NativeOptions { crash_at: Some(point.parse()?), ..NativeOptions::at(data_dir) };
    let native = Native::open(options)?;
    let id: SandboxId = id.parse()?;
    match action.as_str() {
        "create" => {
            let spec =
                SandboxSpec { user: Some("root".to_owned()), ..SandboxSpec::new(TemplateName::host()) };
            let template = TemplateStore::open(data_dir)?.get(&spec.template)?;
            native.create(template.request(id, spec, OwnerBond::Outlives))?;
            Ok(())
        }
        "destroy" => {
            native.destroy(&id)?;
            native.settle(PATIENCE);
            Ok(())
        }
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
            let into = rest.first().map_or_else(|| data_dir.join("sealed"), PathBuf::from);
            native.seal(&id, &into, found.root.trees())?;
            Ok(())
        }
        other => Err(format!("`{other}` is no step").into()),
    }
}

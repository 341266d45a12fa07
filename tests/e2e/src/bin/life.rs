//! One step of a sandbox's life in a process of its own, so that a test can kill that process half
//! way: `life DATA_DIR CRASH_POINT create|resume|halt|seal|clear|destroy ID [PLACE]`, on the
//! backend that `WARREN_TEST_BACKEND` names.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use warren_core::{
    CreateRequest, Isolation, OwnerBond, RootImageName, RootKind, RootState, SandboxId, SandboxSpec,
    TemplateName,
};
use warren_e2e::{DockerEngine, causes, lxd_request, named, open_any, open_lxd};
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

/// A request on the template of the spec, or on the image that every engine of tests has.
fn request(
    backend: &dyn Isolation,
    data_dir: &Path,
    id: SandboxId,
    spec: SandboxSpec,
) -> Result<CreateRequest, Failure> {
    if backend.capabilities().roots.contains(&RootKind::Layers) {
        let template = TemplateStore::open(data_dir)?.get(&spec.template)?;
        return Ok(template.request(id, spec, OwnerBond::Outlives));
    }
    let name: RootImageName = DockerEngine::IMAGE.parse()?;
    let found = backend.image(&name.into())?;
    Ok(CreateRequest::on_image(id, &spec, OwnerBond::Outlives, found))
}

fn step(words: &[String]) -> Result<(), Failure> {
    let [data_dir, point, action, id, rest @ ..] = words else { return Err("four words are needed".into()) };
    let data_dir = Path::new(data_dir);
    let point = Some(point.parse()?);
    // `WARREN_TEST_LXD` is the socket of a daemon.
    let lxd = std::env::var_os("WARREN_TEST_LXD");
    let backend: Box<dyn Isolation> = match &lxd {
        Some(socket) => Box::new(open_lxd(Path::new(socket), data_dir, point)?),
        None => open_any(&named(), data_dir, point)?,
    };
    let request = |id: SandboxId, spec: SandboxSpec| -> Result<CreateRequest, Failure> {
        if lxd.is_some() {
            return Ok(lxd_request(&*backend, id, &spec, OwnerBond::Outlives)?);
        }
        request(&*backend, data_dir, id, spec)
    };
    let id: SandboxId = id.parse()?;
    match action.as_str() {
        "create" => {
            let spec =
                SandboxSpec { user: Some("root".to_owned()), ..SandboxSpec::new(TemplateName::host()) };
            backend.create(request(id, spec)?)?;
            Ok(())
        }
        "destroy" => {
            backend.destroy(&id)?;
            backend.settle(PATIENCE);
            Ok(())
        }
        "halt" => Ok(backend.halt(&id)?),
        "resume" => {
            let found = backend.list()?.into_iter().find(|found| found.id == id).ok_or("it is not listed")?;
            backend.create(CreateRequest { state: RootState::Kept, ..request(id, found.spec)? })?;
            Ok(())
        }
        "seal" => {
            let found = backend.list()?.into_iter().find(|found| found.id == id).ok_or("it is not listed")?;
            let into = rest.first().map_or_else(|| data_dir.join("sealed"), PathBuf::from);
            backend.layered().ok_or("it has no layers")?.seal(&id, &into, found.root.trees())?;
            Ok(())
        }
        "clear" => Ok(backend.layered().ok_or("it has no layers")?.clear(&id)?),
        "suspend" => {
            let into = rest.first().map_or_else(|| data_dir.join("suspended"), PathBuf::from);
            Ok(backend.memory().ok_or("it keeps no processes")?.suspend(&id, &into)?)
        }
        other => Err(format!("`{other}` is no step").into()),
    }
}

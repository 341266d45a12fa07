//! The engine in a program of one's own, on this machine's real sandboxes and without HTTP: a sandbox is made, used, stopped with its
//! files kept, and used again. Needs root.
//!
//! `cargo run -p warren-server --example embed -- /var/tmp/embedded`

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warren_core::{Owner, SandboxId, SandboxSpec, TemplateName};
use warren_engine::{
    Acquire, Engine, NewSandbox, OutputCaps, Parts, ProcessSpec, Settings, ShutdownPolicy, StoppedFiles,
};
use warren_isolate::{Native, NativeOptions};
use warren_server::{MachineClock, MachineRandom};
use warren_store::{BuildFileStore, DataDisk, LayerDirectory, SqliteCatalog, TemplateStore};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let data_dir = std::env::args_os().nth(1).map(PathBuf::from).ok_or("name a data directory")?;
    let engine = Engine::open(parts(&data_dir)?, Settings::default()).await?;
    let me = Owner::first();
    let mut screen = std::io::stdout();

    let sandbox = NewSandbox::new(SandboxSpec::new(TemplateName::host()));
    let made = engine.acquire(&me, Acquire::new("example", sandbox)).await?;
    let id = made.sandbox.id;
    writeln!(screen, "{id} was made in {} ms", made.sandbox.made_in_ms)?;
    run(&engine, &me, &id, "uname -sr > note").await?;
    engine.stop(&me, &id, StoppedFiles::Keep, "the example").await?;
    engine.resume(&me, &id).await?;
    writeln!(
        screen,
        "after its second start it still knows: {}",
        run(&engine, &me, &id, "cat note").await?.trim()
    )?;
    engine.stop(&me, &id, StoppedFiles::Delete, "the example").await?;
    engine.shutdown(ShutdownPolicy::Leave).await;
    Ok(())
}

fn parts(data_dir: &Path) -> Result<Parts, Box<dyn Error>> {
    std::fs::create_dir_all(data_dir)?;
    let catalog = SqliteCatalog::open(data_dir)?;
    let templates = TemplateStore::open(data_dir)?;
    let native = NativeOptions {
        data_dir: data_dir.to_owned(),
        prepared_networks: 0,
        subvolumes: false,
        crash_at: None,
    };
    Ok(Parts {
        backends: vec![Arc::new(Native::open(native)?)],
        catalog: Arc::new(catalog),
        layers: Arc::new(LayerDirectory::open(data_dir, templates.clone())?),
        templates: Arc::new(templates),
        build_files: Arc::new(BuildFileStore::open(data_dir)),
        networks: Arc::new(warren_core::NoNetworks::because("the example has none")),
        disk: Arc::new(DataDisk::of(data_dir)?),
        clock: Arc::new(MachineClock::new()?),
        random: Arc::new(MachineRandom),
        passed: Arc::new(|_| {}),
    })
}

async fn run(engine: &Engine, me: &Owner, id: &SandboxId, line: &str) -> Result<String, Box<dyn Error>> {
    let spec =
        ProcessSpec { argv: ["/bin/sh", "-c", line].map(Into::into).to_vec(), ..ProcessSpec::default() };
    let caps = OutputCaps { stdout: 4096, stderr: 4096 };
    let result = engine.exec(me, id, spec, Default::default(), caps).await?;
    Ok(String::from_utf8_lossy(&result.stdout.bytes).into_owned())
}

//! The engine without a server: a sandbox is made, used, stopped with its files kept, and used
//! again.
//!
//! Everything the engine stands on is a port. Here stand the fakes of the test kit, so the example
//! runs anywhere; `crates/warren-server/examples/real_sandboxes.rs` is the same with real ones.

use std::error::Error;
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use warren_core::catalog::EventFilter;
use warren_core::{Caller, Owner, SandboxSpec, TemplateName};
use warren_engine::{
    Acquire, Engine, EngineError, NewSandbox, OutputCaps, Parts, ProcessSpec, Sandbox, Settings,
    ShutdownPolicy, StoppedFiles,
};
use warren_testkit::{
    FakeBuildFiles, FakeClock, FakeIsolation, FakeNetworks, FakeRandom, FakeTemplates, MemoryCatalog,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::open(parts(), Settings::default()).await?;
    engine.reconciled().await;
    let me = engine.as_(&Caller::new(Owner::first(), "example"));
    let mut screen = std::io::stdout();

    let new = NewSandbox::new(SandboxSpec::new(TemplateName::host()));
    let made = me.sessions().acquire(Acquire::new("example", new)).await?;
    let id = made.sandbox.id;
    let sandbox = me.sandbox(&id);
    writeln!(screen, "{id} is {:?} after {} ms", made.sandbox.status, made.sandbox.made_in_ms)?;
    run(&sandbox, "write /root/note remember").await?;

    let stopped = sandbox.stop(StoppedFiles::Keep).await?;
    writeln!(screen, "{id} is {:?}: {:?}", stopped.status, stopped.death.map(|death| death.detail))?;

    sandbox.resume().await?;
    let output = run(&sandbox, "read /root/note").await?;
    writeln!(screen, "after its second start it still knows: {output}")?;

    sandbox.stop(StoppedFiles::Delete).await?;
    for record in me.events().find(EventFilter::default(), 0, 100).await?.0 {
        writeln!(screen, "{:>3} {:?}", record.number, record.event)?;
    }
    engine.shutdown(ShutdownPolicy::Leave).await;
    Ok(())
}

fn parts() -> Parts {
    let backend = FakeIsolation::new();
    Parts {
        layers: backend.layers(),
        build_files: Arc::new(FakeBuildFiles::default()),
        backends: vec![backend],
        absent: Vec::new(),
        catalog: Arc::new(MemoryCatalog::new()),
        templates: Arc::new(FakeTemplates::new()),
        networks: FakeNetworks::new(),
        clock: Arc::new(FakeClock::new()),
        random: Arc::new(FakeRandom::new(1)),
        passed: Arc::new(|_| {}),
    }
}

async fn run(sandbox: &Sandbox, line: &str) -> Result<String, EngineError> {
    let argv = line.split_whitespace().map(Into::into).collect();
    let spec = ProcessSpec { argv, ..ProcessSpec::default() };
    let caps = OutputCaps { stdout: 64 * 1024, stderr: 64 * 1024 };
    let result = sandbox.exec(spec, Bytes::new(), caps).await?;
    Ok(String::from_utf8_lossy(&result.stdout.bytes).into_owned())
}

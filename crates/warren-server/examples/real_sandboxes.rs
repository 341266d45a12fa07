//! The engine in a program of one's own, on this machine's real sandboxes and without HTTP: a
//! sandbox is made, used, stopped with its files kept, and used again. Needs root.
//!
//! `cargo run -p warren-server --example real_sandboxes -- /var/tmp/sandboxes`

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use warren_core::{Caller, Owner, SandboxSpec, TemplateName};
use warren_engine::{
    Acquire, Engine, NewSandbox, OutputCaps, Parts, ProcessSpec, Sandbox, Settings, ShutdownPolicy,
    StoppedFiles,
};
use warren_server::assembly::{Assembly, Purpose};
use warren_server::config::Config;

fn main() -> Result<(), Box<dyn Error>> {
    let mut config = Config::default();
    config.server.data_dir = std::env::args_os().nth(1).map(PathBuf::from).ok_or("name a data directory")?;
    config.network.enabled = false;
    // Before there are threads: the process gets a mount table of its own.
    let machine = Assembly::new(config, Purpose::Command)?.machine()?;
    tokio::runtime::Runtime::new()?.block_on(example(machine.parts(Arc::new(|_| {}))))
}

async fn example(parts: Parts) -> Result<(), Box<dyn Error>> {
    let engine = Engine::open(parts, Settings::default()).await?;
    let me = engine.as_(&Caller::new(Owner::first(), "the example"));
    let mut screen = std::io::stdout();

    let new = NewSandbox::new(SandboxSpec::new(TemplateName::host()));
    let made = me.sessions().acquire(Acquire::new("example", new)).await?;
    let sandbox = me.sandbox(&made.sandbox.id);
    writeln!(screen, "{} was made in {} ms", sandbox.id(), made.sandbox.made_in_ms)?;
    run(&sandbox, "uname -sr > note").await?;
    sandbox.stop(StoppedFiles::Keep).await?;
    sandbox.resume().await?;
    writeln!(screen, "after its second start it still knows: {}", run(&sandbox, "cat note").await?.trim())?;
    sandbox.stop(StoppedFiles::Delete).await?;
    engine.shutdown(ShutdownPolicy::Leave).await;
    Ok(())
}

async fn run(sandbox: &Sandbox, line: &str) -> Result<String, Box<dyn Error>> {
    let spec =
        ProcessSpec { argv: ["/bin/sh", "-c", line].map(Into::into).to_vec(), ..ProcessSpec::default() };
    let caps = OutputCaps { stdout: 4096, stderr: 4096 };
    let result = sandbox.exec(spec, Default::default(), caps).await?;
    Ok(String::from_utf8_lossy(&result.stdout.bytes).into_owned())
}

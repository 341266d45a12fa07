use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use warren_wire::client::{Client, WriteFile};

use super::server::Server;
use super::{OWN, create_plain};
use crate::report::Figures;
use crate::rounds::Dice;
use crate::session::Session;
use crate::statistics::Samples;

/// One file's size. It is kept in memory inside the sandbox, so that no disk is measured.
const BYTES: u64 = 1 << 30;
const PLACE: &str = "/dev/shm/bench";

/// One large file up and down again, several times, and how much the server grew meanwhile.
pub(super) fn measure(session: &mut Session<'_>, server: &Server, client: &Client) -> anyhow::Result<()> {
    let id = create_plain(client)?;
    let file = WriteFile { path: PLACE.to_owned(), size: Some(BYTES), ..WriteFile::default() };
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for round in 0..session.plan.sizes.windows {
        session.progress(&format!("http_files: round {round}"));
        up.push(watch(server, || {
            client.write_file(&id, &file, &mut Noise::new(BYTES)).map(drop).map_err(Into::into)
        })?);
        down.push(watch(server, || {
            let mut content = client.read_file(&id, PLACE, None)?;
            let count = io::copy(&mut content, &mut io::sink())?;
            if count == BYTES { Ok(()) } else { Err(anyhow::anyhow!("{count} of {BYTES} bytes arrived")) }
        })?);
        session.go_on()?;
    }
    for (case, transfers) in [("http_upload", up), ("http_download", down)] {
        session.enter(case, OWN, transfers.len(), figures(&transfers));
    }
    client.delete_sandbox(&id)?;
    Ok(())
}

/// One file's way.
struct Transfer {
    took: Duration,
    grown_mib: f64,
}

fn figures(transfers: &[Transfer]) -> Figures {
    let times: Samples = transfers.iter().map(|transfer| transfer.took).collect();
    let mb_per_second = BYTES as f64 / 1e3 / times.median_ms();
    Figures::Transfer {
        mb_per_second,
        uncertain_mb_per_second: mb_per_second * times.uncertain_ms() / times.median_ms(),
        grown_mib: transfers.iter().map(|transfer| transfer.grown_mib).fold(0.0, f64::max),
    }
}

fn watch(server: &Server, transfer: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Transfer> {
    let before = server.memory_kib();
    let (most, done) = (AtomicU64::new(before), AtomicBool::new(false));
    let begun = Instant::now();
    let took = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                most.fetch_max(server.memory_kib(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let result = transfer().map(|()| begun.elapsed());
        done.store(true, Ordering::Relaxed);
        result
    })?;
    let grown_mib = most.into_inner().saturating_sub(before) as f64 / 1024.0;
    Ok(Transfer { took, grown_mib })
}

/// Bytes that do not compress, made faster than they can be sent.
struct Noise {
    left: u64,
    block: Vec<u8>,
}

impl Noise {
    fn new(bytes: u64) -> Self {
        let mut dice = Dice::default();
        Self { left: bytes, block: (0..1 << 20).map(|_| dice.roll().to_le_bytes()[0]).collect() }
    }
}

impl Read for Noise {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let count = buffer.len().min(self.block.len()).min(left);
        buffer[..count].copy_from_slice(&self.block[..count]);
        self.left -= count as u64;
        Ok(count)
    }
}

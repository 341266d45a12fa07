//! A program that uses the published E2B package, beside the same program at a server that does
//! nothing: the difference is ours, the rest is the package's.

mod nothing;

use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use self::nothing::Nothing;
use super::OWN;
use super::server::Server;
use crate::errand::output_of;
use crate::plan::Case;
use crate::report::Figures;
use crate::session::Session;
use crate::statistics::Samples;

const PACKAGE: &str = "e2b==2.63.0";
const CLIENT: &str = include_str!("e2b/client.py");
const AT_ONCE: usize = 50;
const MEGABYTES: usize = 100;

/// The document that the client prints.
#[derive(Debug, Deserialize)]
struct Measured {
    create: Pair,
    run: Pair,
    burst_ms: f64,
    upload_mb_per_second: f64,
    download_mb_per_second: f64,
}

/// Milliseconds of each round.
#[derive(Debug, Deserialize)]
struct Pair {
    warren: Vec<f64>,
    sdk_alone: Vec<f64>,
}

pub(super) fn measure(session: &mut Session<'_>, server: &Server) -> anyhow::Result<()> {
    if !session.wants(Case::E2b) {
        return Ok(());
    }
    session.progress("e2b: installing the package");
    let home = session.ground.file("e2b");
    let python = home.join("bin/python");
    let installed = output_of(Command::new("python3").args(["-m", "venv"]).arg(&home))
        .and_then(|_| output_of(Command::new(&python).args(["-m", "pip", "install", "--quiet", PACKAGE])));
    if let Err(error) = installed {
        session.skip("e2b", format!("{PACKAGE} could not be installed: {error:#}"));
        return Ok(());
    }
    session.progress("e2b: measuring");
    let nothing = Nothing::start()?;
    let [(_, url), (_, key)] = server.variables();
    let told = output_of(
        Command::new(&python)
            .args(["-c", CLIENT, url, &nothing.url(), &key.replace("wrn_", "e2b_")])
            .args([session.plan.sizes.rounds, AT_ONCE, MEGABYTES].map(|number| number.to_string())),
    )?;
    let measured: Measured = serde_json::from_str(&told)?;
    enter(session, &measured);
    Ok(())
}

fn enter(session: &mut Session<'_>, measured: &Measured) {
    for (case, pair) in [("e2b_create_to_first_command", &measured.create), ("e2b_run_true", &measured.run)] {
        for (subject, times) in [("warren", &pair.warren), ("sdk_alone", &pair.sdk_alone)] {
            let samples = times.iter().copied().map(milliseconds).collect();
            session.enter_times(case, subject, &samples);
        }
    }
    let burst = Figures::times(&Samples::from_iter([milliseconds(measured.burst_ms)]));
    session.enter(&format!("e2b_burst_{AT_ONCE}"), OWN, 1, burst);
    let rates =
        [("e2b_upload", measured.upload_mb_per_second), ("e2b_download", measured.download_mb_per_second)];
    for (case, mb_per_second) in rates {
        session.enter(
            case,
            OWN,
            5,
            Figures::Transfer { mb_per_second, uncertain_mb_per_second: 0.0, grown_mib: 0.0 },
        );
    }
}

fn milliseconds(told: f64) -> Duration {
    Duration::from_secs_f64(told / 1000.0)
}

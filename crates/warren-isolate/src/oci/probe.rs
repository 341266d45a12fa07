//! The report of `doctor` on a runtime: installed or not, how old, and what of it works here.

use std::path::Path;

use warren_core::{Check, CheckStatus};

use super::runtime::{Installed, Runtime, RuntimeError, TRIED_RUNSC};
use crate::linux::{self, Layout};

/// gVisor's first version that answers `statx` as today's programs ask it.
const KNOWS_STATX: &str = "20230227";

pub(super) fn examine(runtime: Runtime, data_dir: &Path) -> Vec<Check> {
    let mut checks = linux::examine(data_dir);
    let found = runtime.find();
    checks.push(installed(runtime, &found));
    if let Ok(installed) = &found {
        checks.extend(quirks(runtime, installed));
    }
    checks
}

fn installed(runtime: Runtime, found: &Result<Installed, RuntimeError>) -> Check {
    let name = runtime.name();
    match found {
        Ok(Installed { program, version, .. }) => Check {
            name,
            status: CheckStatus::Ok,
            found: format!("version {version}, `{}`", program.display()),
            advice: String::new(),
        },
        Err(error) => Check {
            name,
            status: CheckStatus::Failed,
            found: match error {
                RuntimeError::Missing { .. } => "not installed".to_owned(),
                RuntimeError::Old { found, .. } => format!("version {found}"),
                RuntimeError::Execute { .. } | RuntimeError::Failed { .. } => "does not run".to_owned(),
            },
            advice: error.to_string(),
        },
    }
}

/// Things that do not work here, or only in another way.
fn quirks(runtime: Runtime, installed: &Installed) -> Vec<Check> {
    match runtime {
        Runtime::Crun => {
            let hybrid = Layout::detect().is_ok_and(|layout| layout.is_hybrid());
            vec![Check {
                name: "crun groups",
                status: CheckStatus::Ok,
                found: if hybrid {
                    "v1 and v2 side by side, which crun refuses: it is shown v1 only".to_owned()
                } else {
                    "ours; crun makes none".to_owned()
                },
                advice: String::new(),
            }]
        }
        Runtime::Runc => Vec::new(),
        Runtime::Runsc => {
            let network = Check {
                name: "runsc network",
                status: CheckStatus::Ok,
                found: "sockets of the sandbox's namespace, which this machine's kernel serves".to_owned(),
                advice: String::new(),
            };
            let old = installed.version.as_str() < KNOWS_STATX;
            let programs = Check {
                name: "runsc programs",
                status: if old { CheckStatus::Warning } else { CheckStatus::Ok },
                found: if old {
                    "this version answers EINVAL to `statx` with AT_NO_AUTOMOUNT: `ls` and others fail"
                        .to_owned()
                } else {
                    "ordinary programs run".to_owned()
                },
                advice: if old {
                    "install a newer gVisor: https://gvisor.dev".to_owned()
                } else {
                    String::new()
                },
            };
            vec![network, programs, tried(runtime, &installed.version)]
        }
    }
}

/// Versions of gVisor differ in more than can be asked of the program.
fn tried(runtime: Runtime, version: &str) -> Check {
    let untried = runtime.is_untried(version);
    Check {
        name: "runsc versions",
        status: if untried { CheckStatus::Warning } else { CheckStatus::Ok },
        found: format!("Warren was tried with version {TRIED_RUNSC}, here is {version}"),
        advice: if untried {
            "see whether it starts one: warren run --backend runsc -- true".to_owned()
        } else {
            String::new()
        },
    }
}

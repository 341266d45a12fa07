use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;
use warren_core::HostName;
use warren_server::assembly::claim_data_dir;

use crate::error::CliError;
use crate::global::Global;
use crate::local::require_root;
use crate::settings::SettingFlags;
use crate::ui;

/// Look after certificates.
#[derive(Debug, Subcommand)]
pub(crate) enum Tls {
    Init(Init),
}

/// Make a local authority that signs for addresses of ports, and say how to trust it.
///
/// It may sign for names below `localhost` and the domain only, so that trusting it endangers no
/// other site. `warren serve` uses it where ports.tls_listen is set and no other certificate is.
#[derive(Debug, Args)]
pub(crate) struct Init {
    #[command(flatten)]
    settings: SettingFlags,
    /// Sign for names below this domain [default: the settings' ports.domain]
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<HostName>,
    /// Replace the present one: all who trust it have to trust the new one
    #[arg(long)]
    renew: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The authority, as JSON shows it.
#[derive(Debug, Serialize)]
struct Authority {
    authority: PathBuf,
    domain: String,
    /// It was there already.
    kept: bool,
}

impl Tls {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let Self::Init(args) = self;
        args.run(global)
    }
}

impl Init {
    fn run(self, global: &Global) -> Result<(), CliError> {
        require_root()?;
        let config = self.settings.load(global)?.config;
        claim_data_dir(&config.server.data_dir)?;
        let domain = self.domain.as_ref().unwrap_or(&config.ports.domain);
        let files =
            warren_server::init_tls(&config.server.data_dir, domain, self.renew).map_err(CliError::new)?;
        let shown =
            Authority { authority: files.authority.clone(), domain: domain.to_string(), kept: files.kept };
        ui::show(self.json, &shown, |shown| ui::print(&shown.authority.display().to_string()));
        let made = if files.kept { "was there already: --renew replaces it" } else { "is new" };
        let names = if domain.as_str() == "localhost" { String::new() } else { format!("{domain} and ") };
        ui::say(&format!("The local authority {made}. It signs for names below {names}localhost.\n"));
        ui::say(&advice(&files.authority));
        Ok(())
    }
}

fn advice(authority: &Path) -> String {
    let path = authority.display();
    format!(
        "To trust it:\n  \
         Debian, Ubuntu   cp {path} /usr/local/share/ca-certificates/warren.crt && update-ca-certificates\n  \
         Fedora           cp {path} /etc/pki/ca-trust/source/anchors/warren.pem && update-ca-trust\n  \
         Firefox          Settings, Certificates, Authorities, Import\n  \
         Chrome on Linux  certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n warren -i {path}\n  \
         curl             curl --cacert {path} …\n\
         To use it:\n  \
         warren serve --set ports.tls_listen=127.0.0.1:7443"
    )
}

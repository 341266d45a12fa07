//! The text of the units. `scripts/real-machine` tests them on a machine with systemd.

use std::path::{Path, PathBuf};

/// The place of the unit, where files of an operator go before those of packages.
pub(super) const UNIT: &str = "/etc/systemd/system/warren.service";

/// The places of units that came with the program.
pub(super) const PACKAGED_UNITS: [&str; 2] =
    ["/usr/local/lib/systemd/system/warren.service", "/usr/lib/systemd/system/warren.service"];

/// The place of a unit that ends sandboxes when the machine goes down and no server runs.
pub(super) const REST_UNIT: &str = "/etc/systemd/system/warren-rest.service";

/// The values that the units name.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) program: PathBuf,
    pub(super) data_dir: PathBuf,
    pub(super) config: Option<PathBuf>,
    pub(super) listen: Option<String>,
}

const DATA_DIR: &str = "RequiresMountsFor=";

impl Unit {
    pub(super) fn text(&self) -> String {
        let data_dir = self.data_dir.to_string_lossy();
        let mut command = vec![word(&self.program.to_string_lossy()), "serve".to_owned()];
        command.extend(["--data-dir".to_owned(), word(&data_dir)]);
        if let Some(config) = &self.config {
            command.extend(["--config".to_owned(), word(&config.to_string_lossy())]);
        }
        if let Some(listen) = &self.listen {
            command.extend(["--listen".to_owned(), word(listen)]);
        }
        format!(
            "# Written by `warren service install`, which overwrites it; `systemctl edit warren` keeps what you add.
[Unit]
Description=Warren, sandboxes for programs that nobody vouches for
After=network.target nftables.service
# The data directory is there before the server, and until it has ended.
{DATA_DIR}{}

[Service]
Type=notify
ExecStart={}
# Sandboxes are not the server's to take with it: only its own process ends, and the next one takes them over.
KillMode=process
# Nor is a program in a sandbox that ran out of memory a reason to end the server.
OOMPolicy=continue
Restart=always
RestartSec=1
# Many sandboxes may have to be looked at, and when the machine goes down, to be brought to rest.
TimeoutStartSec=300
TimeoutStopSec=60
LimitNOFILE=1048576
TasksMax=infinity

[Install]
WantedBy=multi-user.target
",
            word(&data_dir),
            command.join(" ")
        )
    }

    pub(super) fn rest_text(&self) -> String {
        let (program, data_dir) =
            (word(&self.program.to_string_lossy()), word(&self.data_dir.to_string_lossy()));
        format!(
            "# Written by `warren service install`, which overwrites it.
[Unit]
Description=Bring Warren's sandboxes to rest when the machine goes down
# What starts before the server ends after it.
Before=warren.service
{DATA_DIR}{data_dir}

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
ExecStop={program} --data-dir {data_dir} service rest
TimeoutStopSec=60

[Install]
WantedBy=multi-user.target
"
        )
    }

    /// The data directory of a unit that was written here.
    pub(super) fn data_dir_in(text: &str) -> Option<PathBuf> {
        let written = text.lines().find_map(|line| line.strip_prefix(DATA_DIR))?;
        Some(Path::new(&unword(written)).to_owned())
    }
}

/// Quotes a word for systemd, so that specifiers, variables and blanks mean nothing in it.
fn word(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    if escaped.contains([' ', '\t', '"', '\'', '\\', ';']) { format!("\"{escaped}\"") } else { escaped }
}

fn unword(written: &str) -> String {
    let inner = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(written);
    inner.replace("$$", "$").replace("%%", "%").replace("\\\"", "\"").replace("\\\\", "\\")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn unit(data_dir: &str) -> Unit {
        Unit {
            program: "/usr/local/bin/warren".into(),
            data_dir: data_dir.into(),
            config: None,
            listen: None,
        }
    }

    /// `deploy` has what is installed where nothing is said. `make bless` writes it.
    #[test]
    fn the_units_that_are_shipped_are_those_that_are_installed() {
        let unit = unit("/var/lib/warren");
        for (name, text) in [("warren.service", unit.text()), ("warren-rest.service", unit.rest_text())] {
            let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
            if std::env::var_os("WARREN_BLESS").is_some() {
                fs::write(&path, &text).unwrap();
            }
            assert_eq!(fs::read_to_string(path).unwrap_or_default(), text, "run `make bless`");
        }
    }

    #[test]
    fn options_are_words_of_the_command() {
        let unit = Unit {
            listen: Some("0.0.0.0:80".into()),
            config: Some("/etc/a b.yaml".into()),
            ..unit("/srv/w")
        };
        let text = unit.text();
        let command = "ExecStart=/usr/local/bin/warren serve --data-dir /srv/w --config \"/etc/a b.yaml\" --listen 0.0.0.0:80\n";
        assert!(text.contains(command), "{text}");
    }

    #[test]
    fn a_data_directory_of_any_name_is_found_again() {
        for name in ["/var/lib/warren", "/srv/a b", "/srv/50%", "/srv/$HOME", "/srv/a\\b\"c"] {
            assert_eq!(Unit::data_dir_in(&unit(name).text()), Some(name.into()), "{name}");
        }
        assert_eq!(Unit::data_dir_in("[Service]\nExecStart=/bin/true\n"), None);
    }
}

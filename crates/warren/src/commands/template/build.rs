use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use tempfile::TempDir;
use warren_core::{ByteSize, TemplateName};
use warren_store::{ImportSource, TemplateConfig};
use warren_wire::client::Client;

use super::bootstrap::{self, Bootstrap};
use super::browser::{self, Registry};
use super::{import, refuse_to_replace, told};
use crate::error::CliError;
use crate::global::Global;
use crate::local::{Local, require_root};
use crate::server::Place;
use crate::ui;

/// Build a template of Debian packages.
///
/// `base` is a small Debian with what programs for sandboxes expect: a user `user` who may use
/// sudo, Python, Node.js, git and curl. `code-interpreter` has a Python kernel with numpy, pandas,
/// matplotlib and their kind as well, and runs R and Java. `browser` has Chromium and Playwright's
/// MCP server, for sandboxes of the type `playwright_mcp`. Needs root and `mmdebstrap` on this
/// machine; packages come from where it has its own, unless you name a mirror. For `browser` it
/// needs `npm`, too, or a registry that you name. The template is then on the server that was named
/// or runs here, and in the data directory if there is none.
#[derive(Debug, Args)]
pub(crate) struct Build {
    /// The recipe
    #[arg(value_enum)]
    recipe: Recipe,
    /// The template's name, if it is not the recipe's
    #[arg(long)]
    name: Option<TemplateName>,
    /// The release of Debian, such as bookworm; this machine's own if it runs Debian
    #[arg(long)]
    suite: Option<String>,
    /// Where packages come from: an address, a line of sources.list or a file of them; may be given
    /// more than once
    #[arg(long, value_name = "MIRROR")]
    mirror: Vec<String>,
    /// Where packages of JavaScript come from: the address of a registry; where this machine's npm
    /// has its own if left out
    #[arg(long, value_name = "URL")]
    registry: Option<String>,
    /// A package to install as well; may be given more than once
    #[arg(long, value_name = "PACKAGE")]
    include: Vec<String>,
    /// Replace a template of the same name
    #[arg(long)]
    replace: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Recipe {
    Base,
    CodeInterpreter,
    Browser,
}

/// The packages of every recipe.
const BASE: &[&str] = &[
    "bash",
    "ca-certificates",
    "coreutils",
    "curl",
    "file",
    "git",
    "iproute2",
    "jq",
    "less",
    "ncurses-bin",
    "netbase",
    "nodejs",
    "openssh-client",
    "passwd",
    "procps",
    "python-is-python3",
    "python3",
    "python3-pip",
    "python3-venv",
    "tzdata",
    "unzip",
    "wget",
    "xz-utils",
];

/// The packages that run code, and those that most code uses.
const INTERPRETER: &[&str] = &[
    "default-jdk-headless",
    "fonts-dejavu-core",
    "node-typescript",
    "python3-bs4",
    "python3-ipykernel",
    "python3-jupyter-client",
    "python3-matplotlib",
    "python3-numpy",
    "python3-openpyxl",
    "python3-pandas",
    "python3-pil",
    "python3-requests",
    "r-base-core",
    "r-cran-irkernel",
];

/// Makes a template of a Debian; `$1` is its root. `sudo` asks for no password, and a login shell
/// prints no greeting.
const FURNISH: &str = r#"set -e
chroot "$1" useradd --uid 1000 --user-group --create-home --shell /bin/bash --groups sudo user
ln -s /run/warren/sudo "$1/usr/local/bin/sudo"
mkdir -p "$1/code"
chmod 0777 "$1/code"
find "$1/usr/local" -type d -exec chmod 0777 {} +
touch "$1/root/.hushlogin" "$1/home/user/.hushlogin"
chroot "$1" chown user:user /home/user/.hushlogin
rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED
: > "$1/etc/motd"
"#;

/// The first figure would wait for a list of fonts.
const FONTS: &str =
    r#"chroot "$1" runuser -u user -- env HOME=/home/user python3 -c 'import matplotlib.pyplot'"#;

impl Recipe {
    fn name(self) -> Result<TemplateName, CliError> {
        let name = match self {
            Self::Base => "base",
            Self::CodeInterpreter => "code-interpreter",
            Self::Browser => "browser",
        };
        name.parse().map_err(CliError::new)
    }

    fn packages(self) -> Vec<&'static str> {
        match self {
            Self::Base => BASE.to_vec(),
            Self::CodeInterpreter => [BASE, INTERPRETER].concat(),
            Self::Browser => {
                // It brings a newer Node.js.
                let base = BASE.iter().filter(|package| **package != "nodejs");
                base.chain(browser::PACKAGES).copied().collect()
            }
        }
    }

    fn hooks(self) -> Vec<&'static str> {
        match self {
            Self::Base => vec![FURNISH],
            Self::CodeInterpreter => vec![FURNISH, FONTS],
            Self::Browser => vec![FURNISH, browser::INSTALL],
        }
    }
}

impl Build {
    pub(super) fn run(self, global: &Global) -> Result<(), CliError> {
        require_root()?;
        let name = self.name.clone().map_or_else(|| self.recipe.name(), Ok)?;
        match global.place()? {
            Place::Server(client) => self.build_for(&client, client.base(), &name),
            Place::Machine => self.build_here(&Local::open(global)?, &name),
        }
    }

    /// Builds on this machine, and sends the result to the server.
    fn build_for(&self, client: &Client, place: &str, name: &TemplateName) -> Result<(), CliError> {
        if !self.replace {
            refuse_to_replace(client, name)?;
        }
        let bootstrap = self.bootstrap()?;
        let suite = &bootstrap.suite;
        ui::say(&format!("building {name} of Debian {suite} for {place}: this takes a few minutes"));
        let mut made = bootstrap.begin()?;
        let config = serde_json::to_string(&config()).map_err(CliError::new)?;
        let sent = first_of(&mut made).map_err(CliError::new).and_then(|first| {
            Ok(client.import_template(name.as_str(), Some(config), &mut first.as_slice().chain(&mut made))?)
        });
        if sent.is_ok() || made.has_failed() {
            // The builder's message explains more than an archive that is none.
            made.finish()?;
        }
        let built = sent?;
        ui::show(self.json, &built, |built| {
            ui::tell(&format!("built {name} on {place}: {}", ByteSize(built.size_bytes)));
            ui::tell(&format!("try it: warren create --template {name}"));
        });
        Ok(())
    }

    /// Builds into the data directory, since no server was named and none runs here.
    fn build_here(&self, local: &Local, name: &TemplateName) -> Result<(), CliError> {
        if !self.replace && local.templates.get(name).is_ok() {
            return Err(exists(&format!("there is a template `{name}`")));
        }
        let bootstrap = self.bootstrap()?;
        ui::say(&format!("building {name} of Debian {}: this takes a few minutes", bootstrap.suite));
        let mut made = bootstrap.begin()?;
        let source = ImportSource::Root(Box::new(&mut made), config());
        let imported = import(local, name, source, self.replace);
        // The builder's message explains more than an archive that is none.
        made.finish()?;
        told("built", name, &imported?, self.json);
        Ok(())
    }

    fn bootstrap(&self) -> Result<Bootstrap, CliError> {
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let own = own_suite(&release);
        let suite = self.suite.clone().or_else(|| own.clone()).ok_or_else(|| {
            CliError::new("this machine does not run Debian")
                .hint("name a release and where its packages are: --suite bookworm --mirror URL")
        })?;
        let is_own = own.as_deref() == Some(&suite);
        let mirrors = if self.mirror.is_empty() && is_own { own_sources() } else { self.mirror.clone() };
        let packages = self.recipe.packages().into_iter().map(str::to_owned);
        Ok(Bootstrap {
            suite,
            mirrors,
            packages: packages.chain(self.include.iter().cloned()).collect(),
            hooks: self.recipe.hooks(),
            fetched: self.fetched()?,
        })
    }
}

impl Build {
    /// The files that come from elsewhere than Debian.
    fn fetched(&self) -> Result<Option<TempDir>, CliError> {
        if self.recipe != Recipe::Browser {
            return match &self.registry {
                Some(_) => Err(CliError::new("only the recipe `browser` takes packages of a registry")),
                None => Ok(None),
            };
        }
        // Before anything large is fetched.
        bootstrap::require()?;
        let registry = self.registry.clone().map_or(Registry::OfNpm, Registry::At);
        browser::fetch(&registry).map(Some)
    }
}

pub(super) fn exists(what: &str) -> CliError {
    CliError::new(what.to_owned()).hint("--replace makes it anew, --name gives the new one another name")
}

/// The first bytes. A server does not wait as long for them as packages take.
fn first_of(root: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut first = vec![0; 64 << 10];
    let count = root.read(&mut first)?;
    first.truncate(count);
    Ok(first)
}

/// The release of Debian that an `os-release` file names.
fn own_suite(release: &str) -> Option<String> {
    let value = |name: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.map(|value| value.trim_matches('"').to_owned())
    };
    value("VERSION_CODENAME").filter(|_| value("ID").as_deref() == Some("debian"))
}

/// The file with this machine's package sources, or nothing: then the builder chooses.
fn own_sources() -> Vec<String> {
    let places = ["/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"].map(PathBuf::from);
    let found = places.iter().find(|place| is_in_use(place));
    found.map(|place| place.display().to_string()).into_iter().collect()
}

fn is_in_use(sources: &Path) -> bool {
    let text = fs::read_to_string(sources).unwrap_or_default();
    text.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
}

/// The environment of processes in a template that was built. `HOME` and the like are those of each
/// program's own user.
fn config() -> TemplateConfig {
    let env = [
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG=C.UTF-8",
        "TERM=xterm-256color",
    ];
    TemplateConfig {
        env: env.map(str::to_owned).to_vec(),
        user: "user".to_owned(),
        workdir: "/home/user".to_owned(),
        command: vec!["/bin/bash".to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_debian_has_a_release_of_its_own() {
        let debian = "NAME=\"Debian GNU/Linux\"\nVERSION_CODENAME=bookworm\nID=debian\n";
        assert_eq!(own_suite(debian).as_deref(), Some("bookworm"));
        assert_eq!(own_suite("ID=ubuntu\nVERSION_CODENAME=noble\n"), None);
        assert_eq!(own_suite("ID=debian\n"), None);
        assert_eq!(own_suite(""), None);
    }

    #[test]
    fn recipes_have_names_and_no_package_twice() {
        for recipe in Recipe::value_variants() {
            assert!(recipe.name().is_ok());
            let packages: std::collections::BTreeSet<_> = recipe.packages().into_iter().collect();
            assert_eq!(packages.len(), recipe.packages().len());
        }
    }

    #[test]
    fn sources_without_a_word_are_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("sources.list");
        assert!(!is_in_use(&place));
        fs::write(&place, "# moved\n\n").unwrap();
        assert!(!is_in_use(&place));
        fs::write(&place, "# moved\ndeb x y main\n").unwrap();
        assert!(is_in_use(&place));
    }
}

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use warren_core::{ImageSource, OpenRegistries};

use crate::blobs;
use crate::digest::Digest;
use crate::host::{self, Given};
use crate::import::{self, ImportError, ImportRequest, ImportSource, Imported};
use crate::manifest::ReadError;
use crate::name::TemplateName;
use crate::pulled::PulledImage;
use crate::staging::{self, NamesLock, StagingError, private_directory};
use crate::template::{Template, imported, is_stood_on};

/// How many templates may stand on one another: each adds a layer to every mount.
pub(crate) const MOST_BASES: usize = 16;

/// A server looks at the machine for the built-in template at most this often: many sandboxes that
/// are made in a row need not ask for each.
const LOOK_AT_MACHINE: Duration = Duration::from_millis(250);

/// The templates under one data directory. It holds no state of its own: several processes may use
/// one directory.
#[derive(Debug, Clone)]
pub struct TemplateStore {
    templates: PathBuf,
    /// Layers of pulled images, as their registries have them.
    blobs: PathBuf,
    host: PathBuf,
    machine: PathBuf,
    given: Given,
    hider: host::Hider,
    /// Names the time since the kernel started. What an earlier boot left may be torn.
    boot: OnceLock<String>,
    /// Where any owner may have images pulled from; absent: nowhere.
    pub(crate) registries: Option<Arc<dyn OpenRegistries>>,
    /// The built-in template and when it was last found, for those who stay.
    recent: Option<Arc<Mutex<Option<Seen>>>>,
}

/// A template, and when it was found.
#[derive(Debug)]
struct Seen {
    at: Instant,
    template: Template,
}

/// Where a template that stands on another has what it changes, as a layer has it.
pub(crate) const LAYER: &str = "layer";

/// The contents of the store.
#[derive(Debug)]
pub struct Listing {
    /// The imported templates, by name. The built-in one is not among them.
    pub templates: Vec<Template>,
    /// Why some others cannot be used. One damaged template does not hide the rest.
    pub damaged: Vec<ReadError>,
}

/// The store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("make store directory `{}`: is the data directory writable?", path.display())]
    Make { path: PathBuf, source: io::Error },
    #[error("reclaim what interrupted imports left")]
    Sweep(#[source] StagingError),
    #[error("reclaim layers of images in `{}`", path.display())]
    Collect { path: PathBuf, source: io::Error },
}

/// A template could not be removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    #[error("template `host` is built in and cannot be removed")]
    BuiltIn,
    #[error("there is no template `{name}`")]
    NotFound { name: TemplateName },
    #[error(
        "template `{name}` is in use: end the sandboxes made from it, remove the templates that stand on it, then try again"
    )]
    InUse { name: TemplateName },
    #[error("remove template `{name}`")]
    Discard { name: TemplateName, source: StagingError },
}

impl TemplateStore {
    /// Opens the store, making its directories where they are missing, and reclaims what killed
    /// imports left.
    pub fn open(data: &Path) -> Result<Self, OpenError> {
        Self::open_for_machine(data, Path::new("/"))
    }

    /// As [`open`](Self::open), for a machine whose root is elsewhere.
    pub(crate) fn open_for_machine(data: &Path, machine: &Path) -> Result<Self, OpenError> {
        let store = Self {
            templates: data.join("templates"),
            blobs: data.join("blobs"),
            host: host::place(data, machine),
            machine: machine.to_owned(),
            given: Given::new(data, machine),
            hider: host::Hider::new(),
            boot: OnceLock::new(),
            registries: None,
            recent: None,
        };
        let directories = [store.templates.as_path(), &store.host, store.given.layers()];
        for path in directories {
            private_directory(path).map_err(|source| OpenError::Make { path: path.to_owned(), source })?;
        }
        for path in directories {
            staging::sweep(path).map_err(OpenError::Sweep)?;
        }
        store.collect(&[]).map_err(|source| OpenError::Collect { path: store.blobs.clone(), source })?;
        // Without `/proc` there is no built-in template, and others can be imported all the same.
        drop(store.boot());
        Ok(store)
    }

    /// The boot that this process began in.
    fn boot(&self) -> Result<&str, host::HostError> {
        if let Some(known) = self.boot.get() {
            return Ok(known);
        }
        let read = host::boot()?;
        Ok(self.boot.get_or_init(|| read))
    }

    /// Every imported template.
    pub fn list(&self) -> Result<Listing, ReadError> {
        let mut listing = Listing { templates: Vec::new(), damaged: Vec::new() };
        for name in self.names()? {
            match self.get(&name) {
                Ok(template) => listing.templates.push(template),
                // Removed since the directory was read.
                Err(ReadError::NotFound { .. }) => {}
                Err(error) => listing.damaged.push(error),
            }
        }
        Ok(listing)
    }

    /// The names of what was imported, in order, whether or not it can be read.
    pub(crate) fn names(&self) -> Result<Vec<TemplateName>, ReadError> {
        let failed = |source| ReadError::List { path: self.templates.clone(), source };
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.templates).map_err(failed)? {
            let file_name = entry.map_err(failed)?.file_name();
            // Staging directories and the lock have names that no template can have.
            names.extend(file_name.to_str().and_then(|text| text.parse::<TemplateName>().ok()));
        }
        names.sort();
        Ok(names)
    }

    /// One template by name, `host` among them.
    pub fn get(&self, name: &TemplateName) -> Result<Template, ReadError> {
        self.get_within(name, MOST_BASES)
    }

    /// A template that another is to stand on.
    pub(crate) fn get_as_base(&self, name: &TemplateName) -> Result<Template, ReadError> {
        self.get_within(name, MOST_BASES - 1)
    }

    /// A template and what it stands on, which may stand on up to so many others.
    fn get_within(&self, name: &TemplateName, most_bases: usize) -> Result<Template, ReadError> {
        if name.is_host() {
            return self.host().map_err(|error| ReadError::Host(error.into()));
        }
        let mut template = imported(&self.templates, name)?;
        let Some(base) = &template.manifest.base else { return self.given_to(template) };
        let Some(left) = most_bases.checked_sub(1) else {
            return Err(ReadError::TooManyBases { name: name.clone() });
        };
        let below = self.get_within(base, left).map_err(|source| ReadError::Base {
            name: name.clone(),
            base: base.clone(),
            source: Box::new(source),
        })?;
        let layer = self.templates.join(name.as_str()).join(LAYER);
        template.trees = below.trees;
        for (index, tree) in template.trees.iter_mut().enumerate() {
            let upper = layer.join(format!("upper-{index}"));
            if upper.is_dir() {
                tree.lowers.insert(0, upper);
            }
        }
        Ok(template)
    }

    /// An imported template, with what every sandbox is given on top of its root.
    fn given_to(&self, mut template: Template) -> Result<Template, ReadError> {
        for tree in template.trees.iter_mut().filter(|tree| tree.at == Path::new("/")) {
            let Some(root) = tree.lowers.first() else { continue };
            let layer = self.boot().and_then(|boot| self.given.layer(root, boot));
            let layer = layer.map_err(|error| ReadError::Host(error.into()))?;
            if let Some(layer) = layer {
                tree.lowers.insert(0, layer);
            }
        }
        Ok(template)
    }

    /// The built-in template. Its skeleton is made when the machine changed since the last call;
    /// otherwise this costs some two hundred `stat` calls, for those who stay only now and then.
    pub fn host(&self) -> Result<Template, host::HostError> {
        let find = || host::prepare(&self.host, &self.machine, &self.given, &self.hider, self.boot()?);
        let Some(recent) = &self.recent else { return find() };
        let mut recent = recent.lock();
        match &*recent {
            Some(seen) if seen.at.elapsed() < LOOK_AT_MACHINE => Ok(seen.template.clone()),
            _ => {
                let template = find()?;
                *recent = Some(Seen { at: Instant::now(), template: template.clone() });
                Ok(template)
            }
        }
    }

    /// Looks through the machine's `/usr` for what to hide without anybody waiting for it, but for
    /// the first time, and remembers for a moment what it found. For those who stay.
    #[must_use]
    pub fn looking_in_background(self) -> Self {
        Self { hider: self.hider.in_background(), recent: Some(Arc::default()), ..self }
    }

    /// Lets any owner have images of these registries pulled.
    #[must_use]
    pub fn with_registries(self, registries: Arc<dyn OpenRegistries>) -> Self {
        Self { registries: Some(registries), ..self }
    }

    /// Removes a template. `in_use` is asked while no other process can change names, so that a
    /// sandbox that looks its template up before it registers itself is not missed.
    pub fn remove(
        &self,
        name: &TemplateName,
        in_use: &dyn Fn(&TemplateName) -> bool,
    ) -> Result<(), RemoveError> {
        if name.is_host() {
            return Err(RemoveError::BuiltIn);
        }
        let failed = |source| RemoveError::Discard { name: name.clone(), source };
        let names = NamesLock::acquire(&self.templates).map_err(failed)?;
        if !self.templates.join(name.as_str()).exists() {
            return Err(RemoveError::NotFound { name: name.clone() });
        }
        if in_use(name) || is_stood_on(&self.templates, name) {
            return Err(RemoveError::InUse { name: name.clone() });
        }
        let image = PulledImage::of(&self.templates.join(name.as_str()));
        staging::discard(&self.templates, name, names).map_err(failed)?;
        if let Some(image) = image {
            // What stays now goes when it is old.
            self.collect(&image.layers).ok();
        }
        Ok(())
    }

    /// The image of a registry that a template was pulled as.
    pub fn image_of(&self, name: &TemplateName) -> Option<PulledImage> {
        PulledImage::of(&self.templates.join(name.as_str()))
    }

    /// Removes layers of images that no template is made of: the old ones, and these.
    fn collect(&self, unused: &[Digest]) -> io::Result<()> {
        blobs::collect(&self.blobs, &self.templates, unused)
    }

    /// Makes a template of a directory, an archive or an image. It appears whole or not at all, and
    /// a failure leaves an earlier template of the name as it was.
    pub fn import(&self, request: ImportRequest<'_>) -> Result<Imported, ImportError> {
        let Imported { template, skipped } = match request.source {
            ImportSource::Registry(image) => self.pull(image, request)?,
            _ => import::run(&self.templates, &self.blobs, request)?,
        };
        // It is imported whatever becomes of the rest; who uses it is told what is wrong.
        let template = self.given_to(template.clone()).unwrap_or(template);
        Ok(Imported { template, skipped })
    }

    /// Pulls an image; from the beginning if what an earlier pull left turns out to be wrong.
    fn pull(&self, image: &dyn ImageSource, request: ImportRequest<'_>) -> Result<Imported, ImportError> {
        // What cannot be removed now is tried again by the next.
        self.collect(&[]).ok();
        let ImportRequest { name, replace, limits, progress, .. } = request;
        let mut run = || {
            let (name, source) = (name.clone(), ImportSource::Registry(image));
            let request =
                ImportRequest { name, source, replace, limits: limits.clone(), progress: &mut *progress };
            import::run(&self.templates, &self.blobs, request)
        };
        match run() {
            Err(ImportError::Stale(_)) => run(),
            outcome => outcome,
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.templates
    }
}

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use warren_core::{
    Clock, CreateRequest, ImageAddress, MountAccess, OwnerBond, Random, RegistryErrorKind, Root, RootState,
    RootTree, SandboxId, SandboxSpec, TemplateError, TemplateErrorKind, TemplateInfo, TemplateName,
    Templates,
};

const BOOTS: [&str; 8] =
    ["boot-one", "boot-two", "boot-three", "boot-four", "boot-five", "boot-six", "boot-seven", "boot-eight"];

/// A clock that moves only when told.
#[derive(Debug)]
pub struct FakeClock {
    unix_ms: AtomicU64,
    boot_ms: AtomicU64,
    boots: AtomicUsize,
}

impl FakeClock {
    /// A moment in 2023, an hour after the machine's start.
    pub fn new() -> Self {
        Self {
            unix_ms: AtomicU64::new(1_700_000_000_000),
            boot_ms: AtomicU64::new(3_600_000),
            boots: AtomicUsize::new(0),
        }
    }

    /// Lets time pass, on both clocks alike.
    pub fn advance_ms(&self, ms: u64) {
        self.unix_ms.fetch_add(ms, Ordering::SeqCst);
        self.boot_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// See [`FakeClock::advance_ms`].
    pub fn advance_s(&self, seconds: u64) {
        self.advance_ms(seconds * 1000);
    }

    /// Sets the wall clock. No time passes.
    pub fn jump_wall_s(&self, seconds: i64) {
        let jump = seconds.saturating_mul(1000);
        let now = self.unix_ms.load(Ordering::SeqCst);
        self.unix_ms.store(now.saturating_add_signed(jump), Ordering::SeqCst);
    }

    /// Restarts the machine after this time: the boot clock begins at zero with another boot id.
    ///
    /// # Panics
    ///
    /// After eight boots.
    pub fn reboot(&self, off_s: u64) {
        let boots = self.boots.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(boots < BOOTS.len(), "a test may boot its machine {} times", BOOTS.len());
        self.boot_ms.store(1000, Ordering::SeqCst);
        self.unix_ms.fetch_add(off_s * 1000, Ordering::SeqCst);
    }
}

impl Default for FakeClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for FakeClock {
    fn unix_ms(&self) -> u64 {
        self.unix_ms.load(Ordering::SeqCst)
    }

    fn boot_ms(&self) -> u64 {
        self.boot_ms.load(Ordering::SeqCst)
    }

    fn boot_id(&self) -> &str {
        BOOTS[self.boots.load(Ordering::SeqCst) % BOOTS.len()]
    }
}

/// Numbers that look random, never repeat, and are the same for the same seed.
#[derive(Debug)]
pub struct FakeRandom {
    seed: u64,
    drawn: AtomicU64,
}

impl FakeRandom {
    pub fn new(seed: u64) -> Self {
        Self { seed, drawn: AtomicU64::new(0) }
    }

    /// The next number of the sequence.
    pub fn next(&self) -> u64 {
        scramble(self.seed.wrapping_add(self.drawn.fetch_add(1, Ordering::SeqCst).wrapping_mul(GOLDEN)))
    }

    /// A number below `end`.
    pub fn below(&self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finisher of SplitMix64: one to one, so that different inputs stay different.
fn scramble(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

impl Random for FakeRandom {
    fn bits(&self) -> [u8; 16] {
        let (high, low) = (self.next(), self.next());
        (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
    }
}

pub(crate) fn template_place(name: &TemplateName) -> PathBuf {
    Path::new("/fake/templates").join(name.as_str())
}

/// A root that [`FakeTemplates`] gives for a template.
pub(crate) fn template_root(name: &TemplateName) -> Vec<RootTree> {
    vec![RootTree { at: "/".into(), lowers: vec![template_place(name)], access: MountAccess::ReadWrite }]
}

/// Templates by name: `host` and `python` work, `broken` is listed and cannot be used.
#[derive(Debug)]
pub struct FakeTemplates {
    known: Mutex<BTreeMap<TemplateName, TemplateInfo>>,
}

impl FakeTemplates {
    pub fn new() -> Self {
        let templates = Self { known: Mutex::default() };
        for name in ["host", "python", "broken"] {
            templates.add(name, (name == "broken").then(|| "its digest does not match".to_owned()));
        }
        templates
    }

    /// Adds a template, or replaces it. With a reason it is a broken one.
    ///
    /// # Panics
    ///
    /// If the name is not one of a template.
    pub fn add(&self, name: &str, broken: Option<String>) {
        let name: TemplateName = name.parse().expect("a template's name");
        self.put(TemplateInfo {
            name: name.clone(),
            digest: format!("sha256:{name}"),
            size_bytes: 1 << 20,
            created_unix_ms: 1_600_000_000_000,
            source: if name.is_host() { "built_in" } else { "archive" }.to_owned(),
            user: "root".to_owned(),
            workdir: "/root".to_owned(),
            image: None,
            broken,
        });
    }

    pub(crate) fn put(&self, info: TemplateInfo) {
        self.known.lock().insert(info.name.clone(), info);
    }
}

impl Default for FakeTemplates {
    fn default() -> Self {
        Self::new()
    }
}

impl Templates for FakeTemplates {
    fn templates(&self) -> Result<Vec<TemplateInfo>, TemplateError> {
        Ok(self.known.lock().values().cloned().collect())
    }

    fn request(
        &self,
        id: &SandboxId,
        spec: &SandboxSpec,
        owner: OwnerBond,
    ) -> Result<CreateRequest, TemplateError> {
        let known = self.known.lock();
        let Some(info) = known.get(&spec.template) else {
            return Err(template_error(TemplateErrorKind::NotFound, &spec.template, "there is no template"));
        };
        if info.broken.is_some() {
            return Err(template_error(TemplateErrorKind::Broken, &spec.template, "damaged: template"));
        }
        Ok(CreateRequest {
            id: id.clone(),
            spec: spec.clone(),
            root: Root::Layers(template_root(&spec.template)),
            state: RootState::Fresh,
            env: spec.env.iter().map(|(name, value)| format!("{name}={value}")).collect(),
            user: spec.user.clone(),
            workdir: spec.workdir.clone(),
            owner,
            network: None,
            disk_limit_required: false,
            memory: None,
        })
    }

    fn is_open(&self, registry: &str) -> bool {
        registry == "open.example"
    }

    fn pull_open(&self, image: &ImageAddress) -> Result<TemplateName, TemplateError> {
        let none = || {
            TemplateError::new(
                TemplateErrorKind::Registry(RegistryErrorKind::NotFound),
                format!("pull `{image}`"),
            )
        };
        let name = image.template_name().filter(|_| self.is_open(image.registry())).ok_or_else(none)?;
        if image.repository() == "none" {
            return Err(none());
        }
        self.add(name.as_str(), None);
        Ok(name)
    }

    fn remove_template(&self, name: &TemplateName, in_use: &[TemplateName]) -> Result<(), TemplateError> {
        if name.is_host() || in_use.contains(name) {
            return Err(template_error(TemplateErrorKind::InUse, name, "sandboxes use"));
        }
        match self.known.lock().remove(name) {
            Some(_) => Ok(()),
            None => Err(template_error(TemplateErrorKind::NotFound, name, "there is no template")),
        }
    }
}

fn template_error(kind: TemplateErrorKind, name: &TemplateName, what: &str) -> TemplateError {
    TemplateError { kind, action: format!("{what} `{name}`"), source: None }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_never_repeat_and_depend_on_the_seed() {
        let random = FakeRandom::new(7);
        let drawn: BTreeSet<_> = (0..10_000).map(|_| random.bits()).collect();
        assert_eq!(drawn.len(), 10_000);
        assert_eq!(FakeRandom::new(7).bits(), FakeRandom::new(7).bits());
        assert_ne!(FakeRandom::new(7).bits(), FakeRandom::new(8).bits());
    }

    #[test]
    fn a_jump_of_the_wall_clock_lets_no_time_pass() {
        let clock = FakeClock::new();
        let (wall, boot) = (clock.unix_ms(), clock.boot_ms());
        clock.jump_wall_s(-3600);
        assert_eq!((clock.unix_ms(), clock.boot_ms()), (wall - 3_600_000, boot));
        let before = clock.boot_id().to_owned();
        clock.reboot(60);
        assert_ne!(clock.boot_id(), before);
    }
}

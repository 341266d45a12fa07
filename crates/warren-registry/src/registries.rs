use std::collections::BTreeMap;

use warren_core::{DOCKER_HUB, ImageAddress, ImageSource, OpenRegistries, RegistryError, RegistryErrorKind};

use crate::agent::{self, TrustError};
use crate::credentials::Credentials;
use crate::endpoint::Endpoint;
use crate::image::RegistryImage;

/// Where Docker Hub's registry really is.
const DOCKER_HUB_HOST: &str = "registry-1.docker.io";

/// How registries are reached.
#[derive(Debug, Clone, Default)]
pub struct RegistrySettings {
    /// Hosts that are asked before a registry itself, in this order.
    pub mirrors: BTreeMap<String, Vec<String>>,
    /// Hosts that speak no TLS.
    pub plain_http: Vec<String>,
    /// Registries whose images every owner may begin with.
    pub open: Vec<String>,
    /// Certificates, in PEM, of authorities that are believed beside the machine's own.
    pub extra_ca: Option<Vec<u8>>,
}

/// Where the name of an image may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// To any registry: the operator named it.
    Anywhere,
    /// Into this machine's own networks only if the settings name the registry.
    Public,
}

/// The registries of the world.
#[derive(Debug, Clone)]
pub struct Registries {
    settings: RegistrySettings,
}

impl Registries {
    pub fn new(settings: RegistrySettings) -> Self {
        Self { settings }
    }

    /// An image of a registry. Nothing is asked for yet.
    pub fn image(
        &self,
        address: ImageAddress,
        credentials: Option<Credentials>,
        reach: Reach,
    ) -> Result<RegistryImage, TrustError> {
        let endpoints = self.endpoints(address.registry());
        let own = match reach {
            Reach::Anywhere => Some(address.registry()),
            Reach::Public => None,
        };
        let named = self.named().chain(own).map(agent::host_of).collect();
        let agent = agent::make(self.settings.extra_ca.as_deref(), named)?;
        Ok(RegistryImage::new(agent, address, endpoints, credentials))
    }

    fn endpoints(&self, registry: &str) -> Vec<Endpoint> {
        let mirrors = self.settings.mirrors.get(registry).into_iter().flatten();
        let mirrors = mirrors.map(|host| Endpoint { base: self.base(host), is_mirror: true });
        let host = if registry == DOCKER_HUB { DOCKER_HUB_HOST } else { registry };
        let own = Endpoint { base: self.base(host), is_mirror: false };
        mirrors.chain([own]).collect()
    }

    fn base(&self, host: &str) -> String {
        let plain = self.settings.plain_http.iter().any(|plain| plain == host);
        format!("{}://{host}", if plain { "http" } else { "https" })
    }

    /// Hosts that the operator named.
    fn named(&self) -> impl Iterator<Item = &str> {
        self.settings.mirrors.values().flatten().chain(&self.settings.plain_http).map(String::as_str)
    }
}

impl OpenRegistries for Registries {
    fn is_open(&self, registry: &str) -> bool {
        self.settings.open.iter().any(|open| open == registry)
    }

    fn image(&self, address: &ImageAddress) -> Result<Box<dyn ImageSource>, RegistryError> {
        let image = Self::image(self, address.clone(), None, Reach::Public);
        let failed =
            |error| RegistryError::caused(RegistryErrorKind::Refused, format!("pull {address}"), error);
        image.map(|image| Box::new(image) as Box<dyn ImageSource>).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_come_before_the_registry_itself() {
        let registries = Registries::new(RegistrySettings {
            mirrors: BTreeMap::from([(DOCKER_HUB.to_owned(), vec!["mirror.example:5000".to_owned()])]),
            plain_http: vec!["mirror.example:5000".to_owned()],
            ..RegistrySettings::default()
        });
        let bases = |registry| -> Vec<String> {
            registries.endpoints(registry).into_iter().map(|endpoint| endpoint.base).collect()
        };
        assert_eq!(bases(DOCKER_HUB), ["http://mirror.example:5000", "https://registry-1.docker.io"]);
        assert_eq!(bases("ghcr.io"), ["https://ghcr.io"]);
    }
}

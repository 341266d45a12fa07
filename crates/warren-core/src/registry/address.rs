use std::fmt;
use std::str::FromStr;

use crate::id::TemplateName;
use crate::text::shorten;

/// The registry of names that have none.
pub const DOCKER_HUB: &str = "docker.io";

const LONGEST_REPOSITORY: usize = 255;
const LONGEST_TAG: usize = 128;
const LONGEST_REGISTRY: usize = 255;
const USUAL_TAG: &str = "latest";
const HEX_OF_SHA256: usize = 64;

/// An image of a registry, as people write it: `python:3.12`, `ghcr.io/org/app:1`,
/// `localhost:5000/a/b@sha256:…`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ImageAddress {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

/// The text is not the address of an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no image of a registry: write NAME, NAME:TAG or NAME@sha256:DIGEST, with the registry before it if it is not Docker Hub"
)]
pub struct ImageAddressError(String);

impl ImageAddress {
    /// True if a text can name a registry: a host, with a port if it has one.
    pub fn is_registry(text: &str) -> bool {
        is_registry(text)
    }

    /// Its host, with a port if it has one.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The path of the repository at the registry.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The digest that it must have, if it was named.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// The name or digest that the registry is asked for.
    pub fn wanted(&self) -> &str {
        self.digest.as_deref().or(self.tag.as_deref()).unwrap_or(USUAL_TAG)
    }

    /// The template's name, if none is given: `python-3.12`, `ghcr.io-org-app-1`. None of an image
    /// that is named by digest alone, or whose name is too long for one.
    pub fn template_name(&self) -> Option<TemplateName> {
        let short = self.repository.strip_prefix("library/").filter(|_| self.registry == DOCKER_HUB);
        let mut name = short.unwrap_or(&self.repository).to_owned();
        if self.registry != DOCKER_HUB {
            name = format!("{}/{name}", self.registry);
        }
        match &self.tag {
            Some(tag) if tag != USUAL_TAG => name = format!("{name}-{tag}"),
            None if self.digest.is_some() => return None,
            _ => {}
        }
        let plain = |letter| if matches!(letter, '/' | ':' | '[' | ']') { '-' } else { letter };
        name.to_ascii_lowercase().chars().map(plain).collect::<String>().parse().ok()
    }
}

impl FromStr for ImageAddress {
    type Err = ImageAddressError;

    fn from_str(text: &str) -> Result<Self, ImageAddressError> {
        read(text).ok_or_else(|| ImageAddressError(shorten(text)))
    }
}

/// Its whole name, so that two images have the same only if they are the same.
impl fmt::Display for ImageAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        match (&self.tag, &self.digest) {
            (None, None) => write!(f, ":{USUAL_TAG}"),
            (tag, digest) => {
                tag.iter().try_for_each(|tag| write!(f, ":{tag}"))?;
                digest.iter().try_for_each(|digest| write!(f, "@{digest}"))
            }
        }
    }
}

fn read(text: &str) -> Option<ImageAddress> {
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (text, None),
    };
    let (path, tag) = match rest.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
        _ => (rest, None),
    };
    // A part before the first slash is a host if it looks like one, as all tools have it.
    let (registry, repository) = match path.split_once('/') {
        Some((host, repository)) if host.contains(['.', ':']) || host == "localhost" => {
            (host.to_ascii_lowercase(), repository.to_owned())
        }
        Some(_) => (DOCKER_HUB.to_owned(), path.to_owned()),
        None => (DOCKER_HUB.to_owned(), format!("library/{path}")),
    };
    let registry = match registry.as_str() {
        "index.docker.io" | "registry-1.docker.io" => DOCKER_HUB.to_owned(),
        _ => registry,
    };
    let repository = match repository.as_str() {
        single if registry == DOCKER_HUB && !single.contains('/') => format!("library/{single}"),
        _ => repository,
    };
    let fine = is_registry(&registry)
        && is_repository(&repository)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest);
    let owned = |text: &str| text.to_owned();
    fine.then(|| ImageAddress { registry, repository, tag: tag.map(owned), digest: digest.map(owned) })
}

fn is_registry(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let host = match address {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            host.split('.').all(|part| !part.is_empty() && part.bytes().all(known) && !part.starts_with('-'))
        }
    };
    let port = port.is_none_or(|port| {
        port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    host && port && text.len() <= LONGEST_REGISTRY
}

fn is_repository(text: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let part = |part: &str| {
        let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
        ends(part.bytes().next()) && ends(part.bytes().last()) && part.bytes().all(known)
    };
    text.len() <= LONGEST_REPOSITORY && text.split('/').all(part)
}

fn is_tag(text: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    begins && text.len() <= LONGEST_TAG && text.bytes().all(known)
}

fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == HEX_OF_SHA256 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> ImageAddress {
        text.parse().unwrap()
    }

    #[test]
    fn names_mean_what_they_mean_elsewhere() {
        for (text, whole) in [
            ("python", "docker.io/library/python:latest"),
            ("python:3.12", "docker.io/library/python:3.12"),
            ("docker.io/python", "docker.io/library/python:latest"),
            ("index.docker.io/library/python:3", "docker.io/library/python:3"),
            ("e2bdev/base", "docker.io/e2bdev/base:latest"),
            ("ghcr.io/org/app:1.2_x", "ghcr.io/org/app:1.2_x"),
            ("localhost/a", "localhost/a:latest"),
            ("LOCALHOST:5000/a/b", "localhost:5000/a/b:latest"),
            ("[::1]:5000/a:x", "[::1]:5000/a:x"),
        ] {
            assert_eq!(of(text).to_string(), whole, "{text}");
            assert_eq!(of(whole), of(&of(whole).to_string()));
        }
        let digest = format!("sha256:{}", "a".repeat(64));
        assert_eq!(of(&format!("a:1@{digest}")).wanted(), digest);
        assert_eq!(of("a").wanted(), "latest");
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let (long, digest) = ("a".repeat(300), format!("a@sha256:{}", "g".repeat(64)));
        for bad in [
            "",
            "A",
            "a b",
            "a:",
            "a@",
            "a@sha512:00",
            "../a",
            "a/../b",
            "a//b",
            "/a",
            "a/",
            "-a",
            "a.b:0/c",
            "a.b:99999/c",
            "a.b:x/c",
            "a:-t",
            "http://a.b/c",
            "a.b/c?d",
            "a.b/c#d",
            "user@a.b/c",
            "[::g]/a",
            "a..b/c",
            "é",
            "a\n",
            &long,
            &digest,
        ] {
            assert!(bad.parse::<ImageAddress>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_template_has_the_name_of_its_image() {
        let name = |text: &str| of(text).template_name().map(|name| name.to_string());
        assert_eq!(name("python:3.12").as_deref(), Some("python-3.12"));
        assert_eq!(name("ubuntu").as_deref(), Some("ubuntu"));
        assert_eq!(name("e2bdev/base:latest").as_deref(), Some("e2bdev-base"));
        assert_eq!(name("ghcr.io/org/app:V1").as_deref(), Some("ghcr.io-org-app-v1"));
        assert_eq!(name("localhost:5000/a").as_deref(), Some("localhost-5000-a"));
        assert_eq!(name(&format!("a@sha256:{}", "0".repeat(64))), None);
        assert_eq!(name(&format!("a/{}", "b".repeat(100))), None);
    }
}

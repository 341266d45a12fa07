use serde::{Deserialize, Serialize};

/// A root that sandboxes start from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Template {
    #[cfg_attr(feature = "schema", schema(pattern = "^[a-z0-9][a-z0-9._-]{0,62}$"))]
    pub name: String,
    /// Of its content. Empty where it cannot be read.
    pub digest: String,
    pub size_bytes: u64,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub created_at: String,
    /// Where it came from: `built_in`, `directory`, `archive` or `image`.
    pub source: String,
    /// The user of processes that ask for none.
    pub user: String,
    /// Where processes start that ask for no other place.
    #[serde(default)]
    pub cwd: String,
    /// The same as `cwd`, for clients that know it by this name.
    #[cfg_attr(feature = "schema", schema(deprecated))]
    pub workdir: String,
    /// The image of a registry that it was pulled as, by its whole name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Why it cannot be used. Absent when it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

/// Every template, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TemplateList {
    pub items: Vec<Template>,
}

/// Makes a template of an image of a registry.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"image": "python:3.12"})))]
pub struct PullTemplate {
    /// `python:3.12`, `ghcr.io/org/app:1`, `registry.example:5000/app@sha256:…`.
    pub image: String,
    /// The template's name. Left out: the image's, such as `python-3.12`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^[a-z0-9][a-z0-9._-]{0,62}$"))]
    pub name: Option<String>,
    /// Replace a template of the name that no sandbox uses. Otherwise it is a conflict.
    #[serde(default)]
    pub replace: bool,
    /// The registry's credentials: a name and a password, or an identity token. They are used for
    /// this pull and not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_token: Option<String>,
}

/// How far a pull has come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PullProgress {
    /// Bytes of the image's layers that were applied.
    pub done_bytes: u64,
    /// Bytes of all its layers, once known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Files, directories and links so far.
    pub entries: u64,
}

/// Credentials are shown to nobody.
impl std::fmt::Debug for PullTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PullTemplate")
            .field("image", &self.image)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

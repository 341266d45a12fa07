/// A host that has an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// `https://HOST` or `http://HOST`.
    pub(crate) base: String,
    /// It is a mirror, and gets no credentials.
    pub(crate) is_mirror: bool,
}

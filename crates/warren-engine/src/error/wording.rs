/// The fault of a value, without the field's name: each interface calls it differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wording {
    /// A sentence that does not name the field.
    Plain(String),
    /// Follows the field's name and a colon.
    Reason(String),
    /// Follows the field's name: `must be between 1 and 5`.
    Predicate(String),
    /// Follows the field's name in backquotes.
    Quoted(String),
    /// A sentence that names the field as the domain does.
    Named(String),
}

impl Wording {
    /// The sentence where the field has this name.
    pub fn of(&self, name: &str) -> String {
        match self {
            Self::Plain(text) | Self::Named(text) => text.clone(),
            Self::Reason(text) => format!("{name}: {text}"),
            Self::Predicate(text) => format!("{name} {text}"),
            Self::Quoted(text) => format!("`{name}` {text}"),
        }
    }

    /// As [`Wording::of`], for readers who are told of the field by the sentence alone.
    pub fn naming(&self, name: &str) -> String {
        match self {
            Self::Plain(text) => format!("{name}: {text}"),
            _ => self.of(name),
        }
    }
}

impl From<String> for Wording {
    fn from(text: String) -> Self {
        Self::Plain(text)
    }
}

impl From<&str> for Wording {
    fn from(text: &str) -> Self {
        Self::Plain(text.to_owned())
    }
}

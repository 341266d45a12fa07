//! Variables as `--env` takes them.

/// A variable with a value, or one that is passed on as it is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    name: String,
    value: Option<String>,
}

impl Variable {
    /// Reads `NAME=VALUE` or `NAME`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, std::env::var(text).ok()),
        };
        if name.is_empty() {
            return Err("write NAME=VALUE, or NAME to pass on what it is here".to_owned());
        }
        Ok(Self { name: name.to_owned(), value })
    }
}

/// The variables that have a value. One that is to be passed on and is not set here stays unset.
pub(crate) fn settled(variables: &[Variable]) -> impl Iterator<Item = (String, String)> {
    variables.iter().filter_map(|variable| Some((variable.name.clone(), variable.value.clone()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_has_a_value_of_its_own_or_the_one_it_has_here() {
        let read: Vec<Variable> = ["A=b=c", "EMPTY=", "PATH", "NOT_SET_ANYWHERE"]
            .into_iter()
            .map(|text| Variable::parse(text).unwrap())
            .collect();
        let path = std::env::var("PATH").unwrap();
        let expected = [("A", "b=c"), ("EMPTY", ""), ("PATH", path.as_str())];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(settled(&read).collect::<Vec<_>>(), expected);
        assert!(Variable::parse("=b").is_err() && Variable::parse("").is_err());
    }
}

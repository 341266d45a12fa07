//! Steps of a build, as E2B's clients write them.

use warren_core::{BuildStep, CopyFiles};
use warren_engine::RecipeStep;

use crate::error::E2bError;
use crate::rest::templates as rest;

pub(super) fn read(steps: &[rest::Step]) -> Result<Vec<RecipeStep>, E2bError> {
    let one = |(index, step): (usize, &rest::Step)| {
        let read = read_one(step).map_err(|why| E2bError::bad_request(format!("steps[{index}]: {why}")))?;
        Ok(RecipeStep { step: read, force: step.force.unwrap_or_default() })
    };
    steps.iter().enumerate().map(one).collect()
}

fn read_one(step: &rest::Step) -> Result<BuildStep, String> {
    let args = step.args.as_deref().unwrap_or_default();
    let at = |place: usize| args.get(place).filter(|arg| !arg.is_empty()).cloned();
    let need =
        |place: usize, what: &str| at(place).ok_or_else(|| format!("{} needs {what}", short(&step.kind)));
    match step.kind.to_ascii_uppercase().as_str() {
        "COPY" => {
            let hash = step.files_hash.as_deref().ok_or("COPY needs a filesHash")?;
            Ok(BuildStep::Copy(CopyFiles {
                source: need(0, "a source")?,
                target: need(1, "a target")?,
                owner: at(2),
                mode: at(3),
                hash: hash.parse().map_err(|error| format!("filesHash: {error}"))?,
            }))
        }
        "RUN" => Ok(BuildStep::Run { command: need(0, "a command")?, user: at(1) }),
        "ENV" => variables(args).map(BuildStep::Env),
        "WORKDIR" => need(0, "a path").map(BuildStep::Workdir),
        "USER" => {
            Ok(BuildStep::User { name: need(0, "a name")?, sudo: at(1).is_some_and(|flag| flag == "true") })
        }
        other => Err(format!("there is no step `{}`: use COPY, RUN, ENV, WORKDIR or USER", short(other))),
    }
}

fn variables(args: &[String]) -> Result<Vec<(String, String)>, String> {
    if args.is_empty() || !args.len().is_multiple_of(2) {
        return Err("ENV needs names and values, one after the other".to_owned());
    }
    Ok(args.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
}

fn short(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_default).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn step(kind: &str, args: &[&str]) -> rest::Step {
        let args = Some(args.iter().map(|arg| (*arg).to_owned()).collect());
        rest::Step { kind: kind.to_owned(), args, files_hash: None, force: None }
    }

    fn copy(args: &[&str]) -> rest::Step {
        rest::Step { files_hash: Some("a".repeat(64)), ..step("COPY", args) }
    }

    #[test]
    fn steps_are_read() {
        let read = |step: &rest::Step| read_one(step).unwrap();
        let command = |command: &str, user: Option<&str>| BuildStep::Run {
            command: command.to_owned(),
            user: user.map(str::to_owned),
        };
        assert_eq!(read(&step("run", &["ls -l"])), command("ls -l", None));
        assert_eq!(read(&step("RUN", &["ls", "root"])), command("ls", Some("root")));
        assert_eq!(read(&step("RUN", &["ls", ""])), command("ls", None));
        let user = BuildStep::User { name: "bob".to_owned(), sudo: true };
        assert_eq!(read(&step("USER", &["bob", "true"])), user);
        assert_eq!(read(&step("ENV", &["A", "1", "B", ""])).to_string(), "ENV A B");
        let BuildStep::Copy(files) = read(&copy(&["src", "dst", "", "755"])) else { panic!("no copy") };
        assert_eq!((files.owner, files.mode.as_deref()), (None, Some("755")));
    }

    #[test]
    fn a_step_that_cannot_be_read_says_why() {
        let cases = [
            (step("RUN", &[]), "needs a command"),
            (step("ENV", &["A"]), "names and values"),
            (step("WORKDIR", &[""]), "needs a path"),
            (step("COPY", &["a", "b"]), "filesHash"),
            (copy(&["a"]), "needs a target"),
            (
                rest::Step { files_hash: Some("../etc".to_owned()), ..step("COPY", &["a", "b"]) },
                "hexadecimal",
            ),
            (step("ADD", &["a"]), "there is no step"),
        ];
        for (step, why) in cases {
            let message = read(&[step]).unwrap_err().failure().message;
            assert!(message.starts_with("steps[0]: ") && message.contains(why), "{message}");
        }
    }

    proptest! {
        #[test]
        fn no_step_is_too_strange(kind: String, args: Vec<String>, files_hash: Option<String>) {
            drop(read(&[rest::Step { kind, args: Some(args), files_hash, force: None }]));
        }
    }
}

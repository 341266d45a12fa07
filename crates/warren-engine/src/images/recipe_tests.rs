use proptest::prelude::*;
use warren_core::CopyFiles;

use super::*;

fn run(command: &str, user: Option<&str>) -> BuildStep {
    BuildStep::Run { command: command.to_owned(), user: user.map(str::to_owned) }
}

fn copy(digit: &str) -> BuildStep {
    BuildStep::Copy(CopyFiles {
        source: "a".to_owned(),
        target: "b".to_owned(),
        owner: None,
        mode: None,
        hash: digit.repeat(64).parse().unwrap(),
    })
}

fn steps(steps: &[BuildStep]) -> Vec<RecipeStep> {
    steps.iter().map(|step| RecipeStep { step: step.clone(), force: false }).collect()
}

#[test]
fn the_key_of_a_step_tells_all_that_led_to_it() {
    let keys = |list: &[BuildStep], base: &str| -> Vec<String> {
        keyed(steps(list), base).unwrap().into_iter().map(|step| step.key).collect()
    };
    let (one, two) = (run("one", None), run("two", None));
    let both = keys(&[one.clone(), two.clone()], "base");
    assert_eq!(both, keys(&[one.clone(), two.clone()], "base"));
    assert_eq!(both[0], keys(std::slice::from_ref(&one), "base")[0]);
    assert_ne!(both, keys(&[two, one.clone()], "base"));
    assert_ne!(both[0], keys(&[one], "other")[0]);
    assert_ne!(keys(&[run("a", Some("b"))], "x"), keys(&[run("ab", None)], "x"));
    assert_ne!(keys(&[copy("a")], "x"), keys(&[copy("b")], "x"));
}

#[test]
fn a_step_that_cannot_be_done_is_named_by_its_place() {
    let wrong = keyed(steps(&[run("true", None), run("a\0b", None)]), "base").unwrap_err();
    assert!(matches!(wrong, ImageError::Step { index: 1, .. }), "{wrong:?}");
    let many = vec![run("true", None); MOST_STEPS + 1];
    assert!(matches!(keyed(steps(&many), "base"), Err(ImageError::TooManySteps { .. })));
}

#[test]
fn variables_are_put_in_their_places_and_nothing_is_run() {
    let env = [("PATH".to_owned(), "/bin".to_owned()), ("A_1".to_owned(), "x y".to_owned())].into();
    let cases = [
        ("/opt:$PATH", "/opt:/bin"),
        ("${PATH}x$PATH", "/binx/bin"),
        ("$A_1!", "x y!"),
        ("$NONE-${NONE}", "-"),
        ("\\$PATH", "$PATH"),
        ("$(reboot) `x` $1 $ ${ ${a b}", "$(reboot) `x` $1 $ ${ ${a b}"),
        ("a\\b", "a\\b"),
    ];
    for (text, expected) in cases {
        assert_eq!(expand(text, &env), expected);
    }
}

#[test]
fn paths_start_where_the_build_is() {
    let from = |path: &str| from_directory(path, Path::new("/home/user"));
    assert_eq!(from("app"), "/home/user/app");
    assert_eq!(from("./app/"), "/home/user/app/");
    assert_eq!(from("."), "/home/user/");
    assert_eq!(from("../x"), "/home/x");
    assert_eq!(from("/etc/../../opt"), "/opt");
    assert_eq!(from("/"), "/");
}

proptest! {
    #[test]
    fn no_text_is_too_strange(text: String, command: String, user: Option<String>) {
        drop(keyed(steps(&[BuildStep::Run { command, user }]), &text));
        drop(expand(&text, &BTreeMap::new()));
        prop_assert!(from_directory(&text, Path::new("/w")).starts_with('/'));
    }
}

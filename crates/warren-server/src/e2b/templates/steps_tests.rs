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
    let read = |step: &rest::Step| Step::read(step).unwrap();
    let command = |command: &str, user: Option<&str>| Step::Run {
        command: command.to_owned(),
        user: user.map(str::to_owned),
    };
    assert_eq!(read(&step("RUN", &["ls -l"])), command("ls -l", None));
    assert_eq!(read(&step("RUN", &["ls", "root"])), command("ls", Some("root")));
    assert_eq!(read(&step("RUN", &["ls", ""])), command("ls", None));
    assert_eq!(read(&step("USER", &["bob", "true"])), Step::User { name: "bob".to_owned(), sudo: true });
    assert_eq!(read(&step("ENV", &["A", "1", "B", ""])).to_string(), "ENV A B");
    let Step::Copy(files) = read(&copy(&["src", "dst", "", "755"])) else { panic!("no copy") };
    assert_eq!((files.owner, files.mode.as_deref()), (None, Some("755")));
}

#[test]
fn a_step_that_cannot_be_done_says_why() {
    let cases = [
        (step("RUN", &[]), "needs a command"),
        (step("ENV", &["A"]), "names and values"),
        (step("ENV", &["A=B", "1"]), "not the name of a variable"),
        (step("WORKDIR", &[""]), "needs a path"),
        (step("USER", &["a b"]), "not a user's name"),
        (step("USER", &["-x"]), "not a user's name"),
        (step("COPY", &["a", "b"]), "filesHash"),
        (copy(&["a"]), "needs a target"),
        (copy(&["a", "b", "x;y"]), "not an owner"),
        (copy(&["a", "b", "", "u+x"]), "not a mode"),
        (rest::Step { files_hash: Some("../../etc".to_owned()), ..step("COPY", &["a", "b"]) }, "hexadecimal"),
        (step("ADD", &["a"]), "there is no step"),
        (step("RUN", &["a\0b"]), "NUL"),
    ];
    for (step, why) in cases {
        let error = read(&[step], "base").unwrap_err();
        let message = error.failure().message;
        assert!(message.starts_with("steps[0]: ") && message.contains(why), "{message}");
    }
    assert!(read(&vec![step("RUN", &["true"]); MOST_STEPS + 1], "base").is_err());
}

#[test]
fn the_key_of_a_step_tells_all_that_led_to_it() {
    let keys = |steps: &[rest::Step], base: &str| -> Vec<String> {
        read(steps, base).unwrap().into_iter().map(|step| step.key).collect()
    };
    let (one, two) = (step("RUN", &["one"]), step("RUN", &["two"]));
    let both = keys(&[one.clone(), two.clone()], "base");
    assert_eq!(both, keys(&[one.clone(), two.clone()], "base"));
    assert_eq!(both[0], keys(std::slice::from_ref(&one), "base")[0]);
    assert_ne!(both, keys(&[two, one.clone()], "base"));
    assert_ne!(both[0], keys(&[one], "other")[0]);
    let (split, whole) = (step("RUN", &["a", "b"]), step("RUN", &["ab"]));
    assert_ne!(keys(&[split], "x"), keys(&[whole], "x"));
    let other = rest::Step { files_hash: Some("b".repeat(64)), ..copy(&["a", "b"]) };
    assert_ne!(keys(&[copy(&["a", "b"])], "x"), keys(&[other], "x"));
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
    fn no_step_is_too_strange(kind: String, args: Vec<String>, text: String) {
        let step = rest::Step { kind, args: Some(args), files_hash: Some(text.clone()), force: None };
        drop(read(&[step], &text));
        drop(expand(&text, &BTreeMap::new()));
        prop_assert!(from_directory(&text, Path::new("/w")).starts_with('/'));
    }
}

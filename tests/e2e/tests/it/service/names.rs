//! Sandboxes by their names and by other words, through the command line.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use warren_e2e::{Output, TestEnv, TestServer, eventually};

#[test]
fn every_command_takes_every_word_for_a_sandbox() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let web = server.warren(["create", "--name", "web"]).ok().line();
    let beginning = &web[..20];
    for word in ["web", "@last", beginning, &web] {
        assert_eq!(server.warren(["exec", word, "--", "echo", "here"]).ok().line(), "here", "{word}");
    }
    server.warren(["exec", "@default", "--", "true"]).ended(125).says("no_default_sandbox");
    assert_eq!(server.warren(["default", "web"]).ok().line(), web);
    assert_eq!(server.warren(["default"]).ok().line(), web);
    assert_eq!(server.warren(["exec", "@default", "--", "echo", "here"]).ok().line(), "here");
    server.warren(["exec", "web", "--detach", "--tag", "t", "--", "sh", "-c", "echo said; sleep 600"]).ok();
    // Commands that only look take the default sandbox.
    for words in [&["ps"] as &[&str], &["log"], &["logs"], &["net", "show"], &["snapshots", "web"]] {
        server.warren(words).ok();
    }
    server.warren(["snapshot", "web", "--name", "green"]).ok();
    server.warren(["exec", "web", "--", "touch", "/home/user/more"]).ok();
    assert!(server.warren(["diff", "web:green", "web"]).ok().text().contains("/home/user/more"));
    assert!(server.warren(["diff", "green", "web"]).ok().text().contains("/home/user/more"));
    let fork = server.warren(["fork", "web:green", "--name", "web-2"]).ok().line();
    assert_eq!(server.warren(["fork", "web", "--name", "web-2"]).ended(125).says(&fork).code, Some(125));
    assert!(server.warren(["ls"]).ok().text().contains("web-2"));
    server.warren(["cp", "/etc/hostname", "web-2:/home/user/copied"]).ok();
    assert_eq!(server.warren(["exec", "web-2", "--", "ls", "copied"]).ok().line(), "copied");
    server.warren(["undo", "web-2"]).ok();
    server.warren(["rename", "web-2", "web"]).ended(125).says(&web);
    server.warren(["rename", "web-2", "third"]).ok();
    server.warren(["stop", "third"]).ok();
    server.warren(["why", "third"]).ok();
    server.warren(["resume", "third"]).ok();
    server.warren(["rename", "third", "--clear"]).ok();
    server.warren(["exec", "third", "--", "true"]).ended(125).says("sandbox_not_found");
    server.warren(["rm", &fork, "web"]).ok();
    assert_eq!(server.warren(["create", "--name", "web"]).ok().line().len(), web.len());
    server.warren(["rm", "@last"]).ok();
    server.warren(["default", "--clear"]).ok();
    server.warren(["log"]).ended(125).says("no_default_sandbox");
    server.finish();
}

#[test]
fn what_could_lose_work_never_guesses_a_sandbox_and_no_wrong_name_is_taken() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    server.warren(["default", &id]).ok();
    for words in [&["rm"] as &[&str], &["stop"], &["undo"], &["redo"], &["pause"], &["turn"]] {
        server.warren(words).ended(2);
    }
    for name in ["Web", "sbxweb", "-a", "a b", "@last", "2", "", "a/b", "snap-a", "$(id)"] {
        let refused = server.warren(["create", &format!("--name={name}")]).ended(2);
        assert!(refused.errors().contains("is not a sandbox's name"), "{}", refused.errors());
    }
    assert_eq!(server.warren(["ls", "--quiet"]).ok().text().lines().count(), 1);
    server.finish();
}

#[test]
fn of_several_creates_of_a_name_one_succeeds_and_a_killed_server_forgets_no_name() {
    let env = TestEnv::new();
    let mut server = TestServer::start(&env);
    let made: Vec<Output> = thread::scope(|scope| {
        let makers: Vec<_> =
            (0..6).map(|_| scope.spawn(|| server.warren(["create", "--name", "web"]))).collect();
        makers.into_iter().map(|maker| maker.join().unwrap()).collect()
    });
    let (won, lost): (Vec<Output>, Vec<Output>) = made.into_iter().partition(|made| made.code == Some(0));
    assert_eq!(won.len(), 1);
    let id = won[0].line();
    assert!(lost.iter().all(|lost| lost.errors().contains(&id)), "{lost:?}");
    server.kill();
    server.start_again();
    assert_eq!(server.warren(["exec", "web", "--", "echo", "here"]).ok().line(), "here");
    server.warren(["create", "--name", "web"]).ended(125).says("sandbox_name_taken");
    // Of a create that ended in the middle nothing is left, and its name is free.
    server.kill();
    server.start_again_with(|setup| setup.crash_at("engine.create.made"));
    server.warren(["create", "--name", "db"]).ended(125);
    server.ended(Duration::from_secs(60));
    server.start_again();
    eventually(Duration::from_secs(60), "what was half made is gone", || {
        let asked = server.warren(["exec", "db", "--", "true"]).ended(125);
        asked.errors().contains("sandbox_not_found")
    });
    server.warren(["create", "--name", "db"]).ok();
    server.warren(["rm", "web", "db"]).ok();
    server.finish();
}

#[test]
fn without_a_server_a_kept_sandbox_has_a_name_too() {
    let env = TestEnv::new();
    env.run_with(&["--keep", "--name", "web"], ["true"]).ok().says("warren shell web");
    let other = env.keep(&[] as &[&str]);
    env.run_with(&["--keep", "--name", "web"], ["true"]).ended(125).says("sandbox_name_taken");
    env.run_with(&["--name", "web"], ["true"]).ended(2);
    assert_eq!(env.exec("web", ["echo", "here"]).ok().line(), "here");
    env.exec("@last", ["touch", "/home/user/last"]).ok();
    assert_eq!(env.exec(&other[..20], ["ls", "/home/user/last"]).ok().line(), "/home/user/last");
    env.exec("@default", ["true"]).ended(125).says("no default sandbox");
    env.exec("db", ["true"]).ended(125).says("sandbox_not_found");
    assert!(env.warren(["ls"]).ok().text().contains("web"));
    // A server knows nothing of them, and this machine does.
    let server = TestServer::start(&env);
    assert_eq!(env.exec("web", ["echo", "here"]).ok().line(), "here");
    env.remove("web").ok();
    env.exec("web", ["true"]).ended(125).says("sandbox_not_found");
    env.remove(&other).ok();
    server.finish();
    assert_eq!(env.warren(["ls", "--json"]).ok().json(), Value::Array(Vec::new()));
}

/// The shells' own completion, on the scripts that `warren completions` prints.
#[test]
fn bash_zsh_and_fish_complete_what_the_server_knows() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.warren(["create", "--name", "web"]).ok().line();
    server.warren(["create", "--name", "web-2"]).ok();
    server.warren(["snapshot", "web", "--name", "green"]).ok();
    server.warren(["snapshot", "web", "--name", "$(touch evil)"]).ok();
    let beginning = &id[..10];
    for shell in ["bash", "zsh", "fish"] {
        let completed = |line: &str| complete(&server, shell, line);
        let words = completed("warren exec ");
        for word in ["web", "web-2", id.as_str(), "@last", "@default"] {
            assert!(words.contains(&word.to_owned()), "{shell}: {words:?}");
        }
        assert_eq!(completed("warren rm web-"), ["web-2"], "{shell}");
        assert!(completed(&format!("warren stop web {beginning}")).contains(&id), "{shell}");
        assert_eq!(completed("warren rollback web gr"), ["green"], "{shell}");
        let offered = completed("warren rollback web ");
        assert!(!offered.iter().any(|word| word.contains("evil")), "{shell}: {offered:?}");
        assert_eq!(completed("warren create --template ho"), ["host"], "{shell}");
        assert!(completed("warren keys revoke key-").iter().all(|word| word.starts_with("key-")), "{shell}");
        // What the scripts know by themselves is still there.
        assert!(completed("warren rena").contains(&"rename".to_owned()), "{shell}");
        assert!(completed("warren create --nam").contains(&"--name".to_owned()), "{shell}");
    }
    server.warren(["rm", "web", "web-2"]).ok();
    server.finish();
    for shell in ["bash", "zsh", "fish"] {
        let words = complete_on(&env, shell, "warren rm ");
        assert!(!words.iter().any(|word| word.starts_with('@')), "{shell}: {words:?}");
    }
    let silent = env.warren(["complete-words", "--", "warren", "rm", ""]).ok();
    assert_eq!((silent.text().as_str(), silent.errors().as_str()), ("", ""));
}

fn complete(server: &TestServer<'_>, shell: &str, line: &str) -> Vec<String> {
    complete_with(server.command(["completions", shell]), shell, line)
}

fn complete_on(env: &TestEnv, shell: &str, line: &str) -> Vec<String> {
    complete_with(env.command(["completions", shell]), shell, line)
}

/// The words that a shell offers at the end of a line.
fn complete_with(mut completions: Command, shell: &str, line: &str) -> Vec<String> {
    let place = tempfile::tempdir().expect("there is a directory");
    let script = place.path().join("_warren");
    std::fs::write(&script, Output::from(completions.output().expect("it runs")).ok().text())
        .expect("the script is written");
    let program = completions.get_program().to_owned();
    let data_dir = completions.get_args().nth(1).expect("it has arguments").to_owned();
    std::os::unix::fs::symlink(&program, place.path().join("warren")).expect("the link is made");
    let ask = match shell {
        "bash" => BASH,
        "zsh" => ZSH,
        _ => FISH,
    };
    let mut command = Command::new(shell);
    match shell {
        "bash" => command.args(["--norc", "--noprofile", "-c"]),
        "zsh" => command.args(["-f", "-c"]),
        _ => command.args(["--no-config", "-c"]),
    };
    command.arg(ask).env_clear().env("WARREN_DATA_DIR", data_dir).env("HOME", place.path());
    command.env("PATH", format!("{}:/usr/bin:/bin", place.path().display())).env("LINE", line);
    command.env("SCRIPT", &script).env("TERM", "dumb").current_dir(place.path()).stdin(Stdio::null());
    let output = Output::from(command.output().expect("it runs")).ok();
    assert!(!place.path().join("evil").exists());
    let mut words: Vec<String> = output.text().lines().map(|word| word.trim().to_owned()).collect();
    words.retain(|word| !word.is_empty());
    words.sort();
    words.dedup();
    words
}

/// As readline calls the function that the script registered.
const BASH: &str = r#"
source "$SCRIPT"
COMP_LINE=$LINE COMP_POINT=${#LINE}
read -ra COMP_WORDS <<<"$LINE"
[[ $LINE == *' ' ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
spec=$(complete -p warren)
[[ $spec =~ -F\ ([^ ]+) ]]
"${BASH_REMATCH[1]}" warren "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

/// zsh completes only at a terminal: it gets one, and says what it would offer.
const ZSH: &str = r#"
zmodload zsh/zpty
cat > $SCRIPT.rc <<'END'
PROMPT=
fpath=(${SCRIPT:h} $fpath)
autoload -Uz compinit; compinit -u -d $SCRIPT.dump
bindkey '^I' complete-word
mark() { print -r -- '<mark>' }
compprefuncs=(mark)
comppostfuncs=(mark exit)
compadd() {
    [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]] && { builtin compadd "$@"; return }
    local -a found
    builtin compadd -A found "$@"
    (( $#found )) && print -rl -- "<word>"${^found}
}
print ready
END
zpty z zsh -f -i
zpty -w z "source $SCRIPT.rc"
zpty -r z text $'*\nready*'
zpty -w z "$LINE"$'\t'
while zpty -r z text; do print -rn -- $text; done | tr -d '\r' | sed -n 's/^.*<word>//p'
"#;

const FISH: &str = r#"
source $SCRIPT
complete -C "$LINE" | string replace -r '\t.*' ''
true
"#;

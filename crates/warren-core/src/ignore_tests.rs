use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;

use super::*;

/// Asks about a path where these directories have these rules.
fn ask(files: &[(&str, &str)], path: &str) -> Result<bool, IgnoreError> {
    let files: BTreeMap<&str, &str> = files.iter().copied().collect();
    let (path, is_directory) = path.strip_suffix('/').map_or((path, false), |path| (path, true));
    Ignored::new::<&str>(&[]).is_ignored(Path::new(path), is_directory, |directory| {
        let text = directory.to_str().and_then(|name| files.get(name));
        Ok(text.map(|text| text.as_bytes().to_vec()).into_iter().collect())
    })
}

#[track_caller]
fn table(rules: &str, ignored: &[&str], kept: &[&str]) {
    for (paths, answer) in [(ignored, true), (kept, false)] {
        for path in paths {
            assert_eq!(ask(&[("", rules)], path), Ok(answer), "{rules:?} {path}");
        }
    }
}

#[test]
fn a_rule_without_a_slash_is_about_names_anywhere() {
    table("*.pyc\nbuild", &["a.pyc", "x/y/a.pyc", "build", "x/build/", "build/a"], &["a.py", "rebuild"]);
    table("foo?[0-9a]", &["foox1", "d/fooxa"], &["foo1", "fooxb", "foo/1"]);
    table("[!a]b\n[]-]c", &["xb", "]c", "-c"], &["ab", "xc"]);
    table("a[[:digit:]x]", &["a1", "ax"], &["ad", "a["]);
}

#[test]
fn a_slash_ties_a_rule_to_its_directory() {
    table("/top\nsrc/gen", &["top", "src/gen", "src/gen/x"], &["x/top", "x/src/gen"]);
    table("dir/", &["dir/", "x/dir/", "dir/file"], &["dir", "x/dir"]);
    table("a/*/z", &["a/b/z"], &["a/z", "a/b/c/z"]);
}

#[test]
fn two_stars_are_any_directories() {
    table("**/logs", &["logs", "a/b/logs"], &["logsx"]);
    table("logs/**", &["logs/a", "logs/a/b"], &["logs/", "x/logs/a"]);
    table("a/**/z", &["a/z", "a/b/z", "a/b/c/z"], &["az", "a/bz"]);
    table("**/a/**/b", &["a/b", "x/a/y/b"], &["b", "ab"]);
    table("a**b", &["ab", "axxb"], &["a/b"]);
}

#[test]
fn later_and_deeper_rules_count_more() {
    table("*.log\n!keep.log", &["a.log"], &["keep.log", "x/keep.log"]);
    let nested = [("", "*.txt\n/out"), ("sub", "!*.txt\nx"), ("out", "!*")];
    assert_eq!(ask(&nested, "a.txt"), Ok(true));
    assert_eq!(ask(&nested, "sub/a.txt"), Ok(false));
    assert_eq!(ask(&nested, "sub/x"), Ok(true));
    assert_eq!(ask(&nested, "x"), Ok(false));
    assert_eq!(ask(&nested, "out/a"), Ok(true), "nothing in an ignored directory is taken back");
}

#[test]
fn comments_and_escapes_are_those_of_git() {
    table(
        "# no\n\\#yes\n\\!so\ntail\\ \nspaced  \r\n\\*",
        &["#yes", "!so", "tail ", "spaced", "*"],
        &["no", "# no", "tail", "x"],
    );
    table("[unclosed\nends\\\n\n/", &[], &["[unclosed", "ends\\", "u"]);
}

#[test]
fn rules_that_nothing_takes_back_come_first() {
    let mut ignored = Ignored::new(&["*.secret", "/target/"]);
    let mut ask = |path: &str, is_directory| {
        ignored.is_ignored(Path::new(path), is_directory, |_| Ok::<_, IgnoreError>(vec![b"!*\n".to_vec()]))
    };
    assert_eq!(ask("a.secret", false), Ok(true));
    assert_eq!(ask("target", true), Ok(true));
    assert_eq!(ask("target/x", false), Ok(true));
    assert_eq!(ask("x/target", true), Ok(false));
    assert_eq!(ask("a", false), Ok(false));
}

#[test]
fn rules_that_are_too_many_too_long_or_too_slow_are_refused() {
    let many = "a\n".repeat(5000);
    assert!(matches!(ask(&[("", &many)], "x"), Err(IgnoreError::TooMany { .. })));
    let half = "a\n".repeat(3000);
    assert!(matches!(ask(&[("", &half), ("d", &half)], "d/x"), Err(IgnoreError::TooMany { .. })));
    let long = "#".repeat(MOST_IGNORE_BYTES + 1);
    assert!(matches!(ask(&[("", &long)], "x"), Err(IgnoreError::TooLong { .. })));
    let slow = format!("{}\n", "*a".repeat(1000)).repeat(100);
    let deep = "a".repeat(200);
    assert!(matches!(ask(&[("", &slow)], &deep), Err(IgnoreError::TooMuchWork { .. })));
}

proptest! {
    #[test]
    fn nothing_that_a_file_holds_is_too_much(
        rules in "[a-z/*?!#\\[\\]\\\\ \n-]{0,80}",
        path in "[a-c]{1,3}(/[a-c*]{1,3}){0,4}",
    ) {
        drop(ask(&[("", &rules)], &path));
    }

    #[test]
    fn a_plain_name_matches_itself_and_nothing_else(name in "[a-z]{1,8}", other in "[a-z]{1,8}") {
        prop_assert_eq!(ask(&[("", &name)], &name), Ok(true));
        prop_assert_eq!(ask(&[("", &name)], &other), Ok(name == other));
    }
}

use super::*;

fn field<T: std::fmt::Debug>(outcome: Result<T, ApiError>) -> Option<String> {
    outcome.unwrap_err().problem().field
}

#[test]
fn a_line_is_given_to_the_shell_and_words_are_not() {
    let line = exec_order(Exec { command: Command::Shell("echo $HOME".into()), ..Exec::default() }).unwrap();
    assert_eq!(line.start.argv, ["/bin/sh".into(), "-c".into(), "echo $HOME".into()]);
    let words = Command::Words(vec!["echo".into(), "$HOME".into()]);
    let order = exec_order(Exec { command: words, ..Exec::default() }).unwrap();
    assert_eq!(order.start.argv, ["echo".into(), "$HOME".into()]);
    assert_eq!(order.start.stdin, Stdin::Null);
}

#[test]
fn what_cannot_be_started_names_its_field() {
    let exec = || Exec { command: Command::Words(vec!["true".into()]), ..Exec::default() };
    let cases = [
        (Exec { command: Command::Words(vec![]), ..exec() }, "command"),
        (Exec { command: Command::Words(vec![String::new()]), ..exec() }, "command"),
        (Exec { command: Command::Shell("a\0b".into()), ..exec() }, "command"),
        (Exec { env: BTreeMap::from([("A=B".into(), "c".into())]), ..exec() }, "env"),
        (Exec { env: BTreeMap::from([("A".into(), "c\0".into())]), ..exec() }, "env"),
        (Exec { cwd: Some(String::new()), ..exec() }, "cwd"),
        (Exec { user: Some("x".repeat(256)), ..exec() }, "user"),
        (Exec { timeout_s: Some(0), ..exec() }, "timeout_s"),
        (Exec { timeout_s: Some(u64::MAX), ..exec() }, "timeout_s"),
        (Exec { stdin_base64: Some("?".into()), ..exec() }, "stdin_base64"),
        (Exec { stdin: Some("a".into()), stdin_base64: Some("YQ==".into()), ..exec() }, "stdin_base64"),
        (Exec { max_output_bytes: Some(1 << 40), ..exec() }, "max_output_bytes"),
    ];
    for (body, name) in cases {
        assert_eq!(field(exec_order(body.clone())).as_deref(), Some(name), "{body:?}");
    }
}

#[test]
fn processes_are_named_by_number_pid_or_tag() {
    assert_eq!(process_selector("7").unwrap(), ProcessSelector::Id(ProcessId(7)));
    assert_eq!(process_selector("pid:7").unwrap(), ProcessSelector::Pid(7));
    assert_eq!(process_selector("tag:a:b").unwrap(), ProcessSelector::Tag("a:b".into()));
    for text in
        ["", "x", "-1", "+1", "pid:", "pid:x", "pid:99999999999", "tag:", "name:x", "18446744073709551616"]
    {
        assert_eq!(process_selector(text).unwrap_err().status().as_u16(), 404, "{text}");
    }
}

#[test]
fn signals_have_names_and_numbers() {
    for (name, number) in [("HUP", 1), ("KILL", 9), ("SIGTERM", 15), ("CHLD", 17), ("WINCH", 28), ("SYS", 31)]
    {
        assert_eq!(signal_number(&Signal::Name(name.into())).unwrap(), number, "{name}");
    }
    assert_eq!(signal_number(&Signal::Number(64)).unwrap(), 64);
    for signal in [Signal::Number(0), Signal::Number(65), Signal::Number(-9), Signal::Name("term".into())] {
        assert_eq!(field(signal_number(&signal)).as_deref(), Some("signal"));
    }
}

#[test]
fn a_cut_output_says_how_much_is_missing_and_cuts_no_character() {
    let output = Output { bytes: "aä€bc".into(), total: 100, dropped_at: Some(2) };
    assert_eq!(shown(output, Encoding::Utf8), "a\n[… 92 bytes left out …]\n€bc");
}

#[test]
fn a_whole_output_is_shown_as_it_is() {
    let output = |bytes: &[u8]| Output { bytes: bytes.into(), total: 3, dropped_at: None };
    assert_eq!(shown(output(b"a\xffb"), Encoding::Utf8), "a\u{fffd}b");
    assert_eq!(shown(output(b"a\xffb"), Encoding::Base64), "Yf9i");
}

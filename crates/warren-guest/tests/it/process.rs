use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use warren_wire::guest::{
    ExitCause, FailureCode, ProcessId, ProcessSelector, Reply, Request, SignalCall, Start,
};

use crate::support::{Agent, shell, start};

#[test]
fn ping_tells_the_generation() -> Result<()> {
    let agent = Agent::start()?;
    let Reply::Pong(pong) = agent.ask(&Request::Ping)? else { bail!("no pong") };
    assert_eq!(pong.generation, warren_wire::guest::GENERATION);
    assert_eq!(pong.version, env!("CARGO_PKG_VERSION"));
    Ok(())
}

#[test]
fn exit_codes_and_signals_are_told_apart() -> Result<()> {
    let agent = Agent::start()?;
    let cases = [
        ("exit 0", 0, ExitCause::Exited),
        ("exit 7", 7, ExitCause::Exited),
        ("exit 255", 255, ExitCause::Exited),
        ("kill -TERM $$", 143, ExitCause::Signalled { signal: 15 }),
        ("kill -KILL $$", 137, ExitCause::Signalled { signal: 9 }),
    ];
    for (script, code, cause) in cases {
        let exit = agent.run(script)?.exit.unwrap();
        assert_eq!((exit.code, exit.cause), (code, cause), "{script}");
    }
    Ok(())
}

#[test]
fn a_timeout_kills_the_whole_group() -> Result<()> {
    let agent = Agent::start()?;
    let began = Instant::now();
    let start = Start { timeout_ms: Some(200), ..shell("sleep 100 & echo $!; wait") };
    let output = agent.follow(start)?.finish()?;
    let exit = output.exit.unwrap();
    assert_eq!((exit.code, exit.cause), (137, ExitCause::TimedOut));
    assert!(began.elapsed() < Duration::from_secs(20));
    assert!(exit.duration_ms >= 200, "{exit:?}");
    let sleeper = format!("/proc/{}", output.text().trim());
    agent.eventually("the sleeper is gone too", || !std::fs::exists(&sleeper).unwrap())
}

#[test]
fn a_process_in_time_is_not_called_timed_out() -> Result<()> {
    let agent = Agent::start()?;
    let output = agent.follow(Start { timeout_ms: Some(u64::MAX), ..shell("exit 3") })?.finish()?;
    assert_eq!(output.exit.unwrap().cause, ExitCause::Exited);
    Ok(())
}

#[test]
fn the_environment_has_defaults_and_the_call_overrides_them() -> Result<()> {
    let agent = Agent::start()?;
    let start = Start { env: vec!["A=b=c".into(), "HOME=/".into()], ..shell("echo $A:$HOME:$PATH:$USER") };
    let output = agent.follow(start)?.finish()?;
    assert_eq!(output.text(), "b=c:/:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:root\n");
    Ok(())
}

#[test]
fn a_process_starts_clean() -> Result<()> {
    let agent = Agent::start()?;
    // The agent raises the score right after the start, in its own time.
    let script = "until [ $(cat /proc/self/oom_score_adj) = 500 ]; do sleep 0.01; done
        grep -E 'Sig(Blk|Ign)' /proc/self/status; umask; ls /proc/self/fd";
    let text = agent.run(script)?.text();
    for line in text.lines().filter(|line| line.starts_with("Sig")) {
        assert!(line.ends_with("\t0000000000000000"), "{line}");
    }
    // 3 is the directory that `ls` itself reads.
    assert!(text.ends_with("0022\n0\n1\n2\n3\n"), "{text}");
    Ok(())
}

#[test]
fn a_process_runs_as_the_named_user_in_the_named_directory() -> Result<()> {
    let agent = Agent::start()?;
    let start = Start {
        user: Some("65534:65534".into()),
        cwd: Some("/tmp".into()),
        ..shell("id -u; id -g; id -G; pwd")
    };
    assert_eq!(agent.follow(start)?.finish()?.text(), "65534\n65534\n65534\n/tmp\n");
    // The next one is root again, and its /proc is its own.
    let script = "id -u; until [ $(cat /proc/self/oom_score_adj) = 500 ]; do sleep 0.01; done";
    assert_eq!(agent.run(script)?.text(), "0\n");
    Ok(())
}

#[test]
fn a_start_that_cannot_be_is_refused_by_kind() -> Result<()> {
    let agent = Agent::start()?;
    let closed = agent.directory.path().join("closed");
    std::fs::create_dir(&closed)?;
    std::fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    let plain = agent.directory.path().join("plain");
    std::fs::write(&plain, "x")?;
    let plain = plain.to_str().unwrap();
    let nobody = |start: Start| Start { user: Some("65534".into()), ..start };
    let at = |cwd: &str| Start { cwd: Some(cwd.into()), ..start(&["true"]) };
    let cases = [
        (start(&["no-such-program"]), FailureCode::NotFound, "no-such-program"),
        (start(&["/no/such/program"]), FailureCode::NotFound, "/no/such/program"),
        (start(&[plain]), FailureCode::PermissionDenied, plain),
        (start(&["/tmp"]), FailureCode::PermissionDenied, "/tmp"),
        (at("/no/such/directory"), FailureCode::Invalid, "/no/such/directory"),
        (at(plain), FailureCode::Invalid, plain),
        (nobody(at(closed.to_str().unwrap())), FailureCode::Invalid, "closed"),
        (
            Start { user: Some("no-such-user".into()), ..start(&["true"]) },
            FailureCode::Invalid,
            "no-such-user",
        ),
        (start(&[]), FailureCode::Invalid, "argument"),
        (start(&["a\0b"]), FailureCode::Invalid, "zero byte"),
        (Start { env: vec!["x".into()], ..start(&["true"]) }, FailureCode::Invalid, "KEY=VALUE"),
    ];
    for (start, code, part) in cases {
        let failure = agent.refusal(&Request::Start(start.clone()))?;
        assert_eq!(failure.code, code, "{start:?}: {failure}");
        assert!(failure.message.contains(part), "{failure}");
    }
    assert!(agent.processes()?.is_empty(), "a failed start leaves no process behind");
    Ok(())
}

#[test]
fn a_program_is_found_by_the_rights_of_its_user() -> Result<()> {
    let agent = Agent::start()?;
    let (first, second) = (agent.directory.path().join("first"), agent.directory.path().join("second"));
    for (place, mode) in [(&first, 0o700), (&second, 0o755)] {
        std::fs::create_dir(place)?;
        std::fs::write(place.join("tool"), format!("#!/bin/sh\necho {mode:o}\n"))?;
        std::fs::set_permissions(place.join("tool"), std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    }
    std::fs::set_permissions(agent.directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let path = format!("PATH={}:{}", first.display(), second.display());
    let tool = Start { env: vec![path.into()], cwd: Some("/".into()), ..start(&["tool"]) };
    assert_eq!(agent.follow(tool.clone())?.finish()?.text(), "700\n");
    let nobody = Start { user: Some("65534".into()), ..tool };
    assert_eq!(agent.follow(nobody)?.finish()?.text(), "755\n");
    Ok(())
}

#[test]
fn wait_answers_before_and_after_the_end() -> Result<()> {
    let agent = Agent::start()?;
    let process = agent.follow(shell("sleep 0.2; exit 5"))?.started.process;
    assert_eq!(agent.wait(process)?.code, 5);
    assert_eq!(agent.wait(process)?.code, 5);
    let missing = Request::Wait { process: ProcessSelector::Id(ProcessId(99)) };
    assert_eq!(agent.refusal(&missing)?.code, FailureCode::NotFound);
    Ok(())
}

#[test]
fn processes_are_listed_and_found_by_tag_and_pid() -> Result<()> {
    let agent = Agent::start()?;
    let tagged = |script| Start {
        tag: Some("web".into()),
        env: vec!["A=1".into()],
        cwd: Some("/tmp".into()),
        ..shell(script)
    };
    let older = agent.follow(tagged("exit 1"))?;
    agent.wait(older.started.process)?;
    let newer = agent.follow(tagged("sleep 100"))?;
    let rows = agent.processes()?;
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].exit.map(|exit| exit.code), Some(1));
    assert_eq!((rows[1].exit, rows[1].terminal, rows[1].pid), (None, false, newer.started.pid));
    assert_eq!((rows[1].argv[2].as_bytes(), rows[1].cwd.as_bytes()), (&b"sleep 100"[..], &b"/tmp"[..]));
    assert_eq!(rows[1].env, ["A=1".into()]);
    for selector in [ProcessSelector::Tag("web".into()), ProcessSelector::Pid(newer.started.pid)] {
        let call = SignalCall { process: selector, signal: 0, group: false };
        assert_eq!(agent.ask(&Request::Signal(call))?, Reply::Done);
    }
    let call = SignalCall { process: ProcessSelector::Tag("web".into()), signal: 15, group: true };
    assert_eq!(agent.ask(&Request::Signal(call.clone()))?, Reply::Done);
    assert_eq!(newer.finish()?.code(), Some(143));
    assert_eq!(agent.refusal(&Request::Signal(call))?.code, FailureCode::Ended);
    Ok(())
}

#[test]
fn a_start_nobody_follows_answers_and_closes() -> Result<()> {
    let agent = Agent::start()?;
    let mut connection = agent.open(&Request::Start(shell("echo hello; exit 4")))?;
    let Reply::Started(started) = connection.reply()? else { bail!("not started") };
    assert_eq!(connection.next_frame()?, None);
    let exit = agent.wait(started.process)?;
    assert_eq!((exit.code, exit.output_bytes), (4, 6));
    Ok(())
}

#[test]
fn usage_counts_what_is_there() -> Result<()> {
    let agent = Agent::start()?;
    let follower = agent.follow(shell("echo 12345; sleep 100"))?;
    agent.eventually("the output is held", || agent.processes().is_ok_and(|rows| rows[0].kept_to == 6))?;
    let Reply::Usage(usage) = agent.ask(&Request::Usage)? else { bail!("no usage") };
    assert_eq!((usage.running, usage.connections, usage.ring_bytes), (1, 2, 6));
    assert!(usage.processes >= 2 && usage.disk_total_bytes > usage.disk_used_bytes);
    assert!(usage.agent_resident_bytes > 0);
    drop(follower);
    Ok(())
}

#[test]
fn five_hundred_short_processes_at_once() -> Result<()> {
    let agent = Agent::start()?;
    let followers = (0..500)
        .map(|n| agent.follow(shell(&format!("echo {n}; echo err >&2; exit {}", n % 200))))
        .collect::<Result<Vec<_>>>()?;
    for (n, follower) in followers.into_iter().enumerate() {
        let output = follower.finish()?;
        assert_eq!(output.text(), format!("{n}\n"));
        assert_eq!((output.stderr.as_slice(), output.code()), (&b"err\n"[..], i32::try_from(n % 200).ok()));
    }
    assert!(agent.processes()?.len() <= 256, "only so many ended processes are kept");
    Ok(())
}

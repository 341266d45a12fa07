//! Limits on memory, processes and processors: checks 39 to 41.

use std::fs;
use std::time::{Duration, Instant};

use warren_core::{ByteSize, Cpus};
use warren_e2e::{TestEnv, probe, probe_file, processes_of};

#[test]
fn check_39_a_fork_bomb_stops_at_the_limit_and_the_neighbour_works() {
    let env = TestEnv::alone();
    let backend = env.backend();
    let bomb = backend.sandbox_with(|spec| spec.limits.pids = 200);
    let neighbour = backend.sandbox();
    backend.spawn(&bomb, probe("while True:\n  error_of(os.fork)"));
    let full = Instant::now() + Duration::from_secs(60);
    while backend.port().usage(&bomb).unwrap().pids < 200 {
        assert!(Instant::now() < full, "it does not reach its limit: {:?}", backend.port().usage(&bomb));
        std::thread::sleep(Duration::from_millis(10));
    }
    for _ in 0..20 {
        let started = Instant::now();
        assert_eq!(backend.exec(&neighbour, ["echo", "fine"]).line(), "fine");
        assert!(started.elapsed() < Duration::from_secs(30), "the neighbour waits {:?}", started.elapsed());
        assert!(backend.port().usage(&bomb).unwrap().pids <= 200);
    }
    let started = Instant::now();
    backend.destroy(&bomb);
    assert!(started.elapsed() < Duration::from_secs(60), "destroy took {:?}", started.elapsed());
    assert!(processes_of(bomb.as_str()).is_empty());
    backend.destroy(&neighbour);
}

#[test]
fn check_39_the_limit_counts_threads_and_is_told_inside() {
    let env = TestEnv::new();
    let body = "import threading, time\nmade = 0\ntry:\n  while made < 1000:\n    threading.Thread(target=time.sleep, args=(60,), \
                daemon=True).start()\n    made += 1\nexcept RuntimeError:\n  pass\nprint(made)\nsys.stdout.flush()\nos._exit(0)";
    let made: u32 = env.run_with(&["--pids", "64"], probe(body)).ok().line().parse().unwrap();
    assert!((40..64).contains(&made), "{made} threads were made");
}

/// Each kind of memory is counted: the bomb is killed, and it is told why.
#[test]
fn check_40_memory_bombs_end_inside_and_are_reported() {
    let env = TestEnv::new();
    for kind in ["anonymous", "memfd", "tmpfs", "shared"] {
        let words = [probe_file!("memory_bombs.py"), vec![kind.to_owned()]].concat();
        let output = env.run_with(&["--memory", "64m", "--user", "root"], &words);
        assert_eq!(output.code, Some(137), "{kind}: {output:?}");
        assert!(output.errors().contains("memory limit of 64 MiB"), "{kind}: {}", output.errors());
        let report = env.run_with(&["--memory", "64m", "--user", "root", "--json"], &words).ended(137).json();
        assert_eq!(report["cause"], "oom", "{kind}: {report}");
        assert!(report["usage"]["oom_kills"].as_u64().unwrap() > 0, "{kind}: {report}");
        let peak = report["usage"]["memory_peak_bytes"].as_u64().unwrap();
        assert!(peak <= 64 << 20, "{kind}: {peak}");
    }
}

/// Memory that the kernel takes back, or hands out in small parts only: the bomb is refused, slowed
/// or killed, and never holds more than its limit.
#[test]
fn check_40_memory_of_the_kernel_stays_within_the_limit() {
    let env = TestEnv::new();
    for kind in ["cache", "pipes", "sockets", "datagrams", "locked", "huge"] {
        let words = [probe_file!("memory_bombs.py"), vec![kind.to_owned()]].concat();
        let report = env.run_with(&["--memory", "64m", "--json"], &words).json();
        let peak = report["usage"]["memory_peak_bytes"].as_u64().unwrap();
        assert!(peak <= 64 << 20, "{kind}: {report}");
        match report["cause"].as_str() {
            Some("exited") => assert_eq!(report["exit_code"], 0, "{kind}: {report}"),
            cause => assert_eq!(cause, Some("oom"), "{kind}: {report}"),
        }
    }
}

#[test]
fn check_40_the_agent_survives_what_it_runs() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.sandbox_with(|spec| spec.limits.memory = ByteSize::mib(64));
    for _ in 0..5 {
        let words = [probe_file!("memory_bombs.py"), vec!["anonymous".to_owned()]].concat();
        assert_eq!(backend.exec(&id, words).exit.code, 137);
        assert_eq!(backend.exec(&id, ["echo", "alive"]).line(), "alive");
    }
    backend.destroy(&id);
}

#[test]
fn check_41_processor_time_is_shared_as_given() {
    let env = TestEnv::alone();
    let backend = env.backend();
    let share = |spec: &mut warren_core::SandboxSpec| spec.limits.cpus = Cpus::from_milli(100);
    let burners: Vec<_> = (0..8).map(|_| backend.sandbox_with(share)).collect();
    let neighbour = backend.sandbox();
    for id in &burners {
        for _ in 0..2 {
            backend.spawn(id, ["sh", "-c", "while :; do :; done"]);
        }
    }
    let used = || -> Vec<u64> { burners.iter().map(|id| backend.port().usage(id).unwrap().cpu_ns).collect() };
    let (before, started) = (used(), Instant::now());
    let mut slowest = Duration::ZERO;
    while started.elapsed() < Duration::from_secs(3) {
        let asked = Instant::now();
        assert_eq!(backend.exec(&neighbour, ["echo", "fine"]).line(), "fine");
        slowest = slowest.max(asked.elapsed());
    }
    let (after, took) = (used(), started.elapsed().as_secs_f64());
    for (before, after) in before.iter().zip(after) {
        let share = (after - before) as f64 / 1e9 / took;
        assert!((0.002..0.15).contains(&share), "a tenth was given, {share:.3} was used");
    }
    assert!(slowest < Duration::from_secs(20), "the neighbour waited {slowest:?}");
    burners.iter().chain([&neighbour]).for_each(|id| backend.port().destroy(id).unwrap());
}

/// The settings that hold a sandbox, read where the kernel keeps them.
#[test]
fn limits_are_what_was_asked_for() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.sandbox_with(|spec| {
        spec.limits.memory = ByteSize::mib(96);
        spec.limits.pids = 77;
        spec.limits.open_files = 512;
    });
    let pid = processes_of(id.as_str())[0];
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let row = |name: &str| limits.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(row("Max open files").contains(" 512 "), "{limits}");
    assert!(row("Max core file size").contains(" 1 "), "{limits}");
    assert!(row("Max realtime priority").contains(" 0 "), "{limits}");
    let body = "import resource\nprint(resource.getrlimit(resource.RLIMIT_NOFILE), error_of(lambda: os.setpriority(0, 0, -1)))\n\
                try:\n  resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))\nexcept (ValueError, OSError) as e:\n  print('refused')";
    let seen = backend.exec(&id, probe(body)).line();
    assert!(seen.starts_with("(512, 512)") && seen.ends_with("refused"), "{seen}");
    backend.destroy(&id);
}

/// An owner with two busy sandboxes has no more of the processors than an owner of a single one.
#[test]
fn check_112_busy_sandboxes_of_one_owner_share_what_one_would_have() {
    let env = TestEnv::alone();
    let backend = env.backend();
    let processors = std::thread::available_parallelism().unwrap().get();
    let milli = u32::try_from(processors * 1000).unwrap();
    let busy = || {
        let id = backend.sandbox_with(|spec| spec.limits.cpus = Cpus::from_milli(milli));
        let loops = format!("for i in $(seq {}); do (while :; do :; done) & done; wait", 2 * processors);
        backend.spawn(&id, ["sh", "-c", &loops]);
        id
    };
    let groups = [vec![busy(), busy()], vec![busy()]];
    let pause = Duration::from_secs(1);
    for _ in 0..3 {
        std::thread::sleep(pause);
        backend.port().balance(&groups);
    }
    let used =
        || groups.concat().iter().map(|id| backend.port().pulse(id).unwrap().cpu_ns).collect::<Vec<_>>();
    let window = || {
        let before = used();
        std::thread::sleep(3 * pause);
        used().iter().zip(before).map(|(now, before)| now - before).collect::<Vec<u64>>()
    };
    // Two to one each, as the weights say; equal parts without them. What others do on the machine
    // can hide that for some seconds.
    let fair = |spent: &Vec<u64>| spent[..2].iter().all(|each| 2 * spent[2] > 3 * each);
    let mut windows = Vec::new();
    let held = (0..5).any(|_| {
        windows.push(window());
        windows.last().is_some_and(fair)
    });
    assert!(held, "{windows:?}");
    for id in groups.concat() {
        backend.destroy(&id);
    }
}

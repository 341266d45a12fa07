//! The walls of a sandbox, looked at from inside and in the engine's own words.

use serde_json::Value;
use warren_core::{CreateRequest, Isolation as _, OwnerBond, SandboxId, SandboxSpec, TemplateName};
use warren_e2e::{DockerEngine, TestEnv, causes, fill};
use warren_isolate::{Docker, DockerOptions};
use warren_wire::guest::{Connection, FrameKind, Reader, Reply, Request, Start, parse_reply};

use super::rig::little;

struct Inside {
    backend: Docker,
    id: SandboxId,
}

impl Inside {
    fn new(env: &TestEnv, engine: &DockerEngine) -> Self {
        let options = DockerOptions { engine: engine.address(), ..DockerOptions::at(env.data_dir(), fill) };
        let backend = Docker::open(options).expect("the backend opens");
        let found = backend.image(&little()).expect("the engine has the image");
        let spec = SandboxSpec { user: Some("root".to_owned()), ..SandboxSpec::new(TemplateName::host()) };
        let id = SandboxId::from_random([7; 16]);
        let request = CreateRequest::on_image(id.clone(), &spec, OwnerBond::DiesWithOwner, found);
        backend.create(request).unwrap_or_else(|error| panic!("{}", causes(&error)));
        Self { backend, id }
    }

    /// The output of a line, errors included.
    fn shell(&self, line: &str) -> String {
        let argv = ["sh", "-c", &format!("exec 2>&1; {line}")].map(Into::into).to_vec();
        let start = Start { argv, follow: Some(Reader::Holds), ..Start::default() };
        let stream = self.backend.dial(&self.id).expect("its agent is dialed").into();
        let mut call: Connection<std::os::unix::net::UnixStream> =
            Connection::open(stream, &Request::Start(start)).expect("a call");
        call.reply().expect("the line is run");
        let mut output = Vec::new();
        loop {
            let frame = call.next_frame().expect("a frame").expect("a call ends with a word");
            match frame.kind {
                FrameKind::Stdout => output.extend_from_slice(&frame.payload),
                FrameKind::Message if matches!(parse_reply(&frame.payload), Ok(Reply::Exited(_))) => {
                    return String::from_utf8(output).expect("output is text");
                }
                _ => {}
            }
        }
    }
}

#[test]
fn root_inside_has_seven_rights_two_filters_and_nothing_of_the_machine() {
    let (env, engine) = (TestEnv::new(), DockerEngine::new());
    let inside = Inside::new(&env, &engine);
    let status = inside.shell("cat /proc/self/status");
    let field = |name: &str| {
        let line =
            status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{status}"));
        line.trim_start_matches(':').trim().to_owned()
    };
    for set in ["CapEff", "CapPrm", "CapBnd"] {
        let held = u64::from_str_radix(&field(set), 16).unwrap();
        assert_eq!(held & !0b1111_1011, 0, "{set}: {held:x}");
    }
    assert_eq!((field("NoNewPrivs").as_str(), field("Seccomp").as_str()), ("1", "2"));
    assert!(field("Seccomp_filters").parse::<u32>().unwrap() >= 2, "the engine's and the agent's own");

    let mounts = inside.shell("cat /proc/self/mountinfo");
    assert!(!mounts.contains("docker.sock"), "{mounts}");
    let data_dir = env.data_dir().to_string_lossy().into_owned();
    let ours: Vec<&str> =
        mounts.lines().filter(|line| line.contains("/docker/agent-") || line.contains("/shared ")).collect();
    assert_eq!(ours.len(), 2, "{data_dir}: {mounts}");
    assert!(ours.iter().any(|line| line.contains(" /.warren ro")), "{ours:?}");
    assert_eq!(inside.shell("ls /sys/class/net").trim(), "lo");
    let devices = inside.shell("ls /dev");
    assert!(!devices.contains("vda") && !devices.contains("sda") && !devices.contains("kmsg"), "{devices}");

    assert!(inside.shell("mount -t tmpfs x /tmp").contains("mount:"), "no mount is made");
    assert!(inside.shell("mknod /tmp/disk b 8 0 || echo refused").contains("refused"));
    assert!(inside.shell("echo 1 > /proc/sys/kernel/panic || echo refused").contains("refused"));
    assert!(inside.shell("touch /.warren/x || echo refused").contains("refused"));
}

/// The one container with a right that no sandbox has: it runs our binary and nothing else, has no
/// network of its own and writes to nothing, and nobody inside a sandbox can reach it.
#[test]
fn the_door_runs_nothing_of_a_sandbox_and_shares_nothing_with_one() {
    let (env, engine) = (TestEnv::new(), DockerEngine::new());
    let inside = Inside::new(&env, &engine);
    let names = engine.containers(&env.data_dir());
    let door = names.iter().find(|name| name.contains("warren-door-")).expect("it is there");
    let door = engine.described(door.trim_matches(['"', '/']));
    let host = &door["HostConfig"];
    assert_eq!(host["CapAdd"], serde_json::json!(["CAP_SYS_ADMIN"]));
    assert_eq!((&host["NetworkMode"], &host["ReadonlyRootfs"]), (&"none".into(), &Value::Bool(true)));
    assert_eq!((&host["Privileged"], &host["PidMode"]), (&Value::Bool(false), &"".into()));
    assert_eq!(door["Config"]["Entrypoint"], serde_json::json!(["/.warren/warren-guest"]));
    let network = |pid: &Value| std::fs::read_link(format!("/proc/{pid}/ns/net")).expect("it runs");
    let own = engine.container(inside.id.as_str());
    assert_ne!(network(&door["State"]["Pid"]), network(&own["State"]["Pid"]), "it is home again");
    assert_eq!(inside.shell("ls /.warren/run").trim(), "agent.sock\nplan");
    assert_eq!(inside.shell("cat /proc/sys/kernel/hostname"), inside.shell("cat /etc/hostname"));
    for line in ["echo x >> /etc/hosts", "echo x >> /etc/resolv.conf", "rm /etc/hostname"] {
        assert!(inside.shell(&format!("({line}) 2>/dev/null || echo refused")).contains("refused"), "{line}");
    }
}

/// The directory that is shared with the machine cannot be filled, and nothing be put in the place
/// of the agent's socket there: it is the file system that refuses, as root may write everywhere.
#[test]
fn the_shared_directory_is_sealed_against_root_inside() {
    let (env, engine) = (TestEnv::new(), DockerEngine::new());
    let inside = Inside::new(&env, &engine);
    for line in [
        "echo x > /.warren/run/x",
        "rm -f /.warren/run/agent.sock && ! test -e /.warren/run/agent.sock",
        "ln -s /var/run/docker.sock /.warren/run/other",
        "mv /.warren/run/agent.sock /.warren/run/moved",
        "mkdir /.warren/run/more",
    ] {
        assert!(inside.shell(&format!("{line} || echo refused")).contains("refused"), "{line}");
    }
    assert_eq!(inside.shell("echo well"), "well\n");
}

#[test]
fn the_engine_is_asked_for_nothing_that_widens_a_container() {
    let (env, engine) = (TestEnv::new(), DockerEngine::new());
    let inside = Inside::new(&env, &engine);
    let container = engine.container(inside.id.as_str());
    let host = &container["HostConfig"];
    for (field, wanted) in [
        ("Privileged", Value::Bool(false)),
        ("IpcMode", "private".into()),
        ("PidMode", "".into()),
        ("UTSMode", "".into()),
        ("CgroupnsMode", "private".into()),
        ("PublishAllPorts", Value::Bool(false)),
    ] {
        assert_eq!(host[field], wanted, "{field}");
    }
    let mode = host["NetworkMode"].as_str().unwrap();
    assert!(mode.starts_with("container:"), "it is started where the door stands: {mode}");
    assert_eq!(host["Memory"], host["MemorySwap"]);
    assert!(host["PidsLimit"].as_i64().unwrap() > 0 && host["NanoCpus"].as_i64().unwrap() > 0);
    assert_eq!(container["Config"]["Labels"]["warren.sandbox"], inside.id.as_str());
    assert_eq!(host["LogConfig"]["Type"], "none");
}

//! The container of a sandbox, as the engine is asked for it. Everything that could widen it is
//! written out, so that no default of an image, an engine or its settings decides.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use bollard::models::{
    ContainerCreateBody, ExecConfig, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum,
    HostConfigLogConfig, ImageConfig, Mount, MountBindOptions, MountBindOptionsPropagationEnum, MountType,
    MountVolumeOptions, RestartPolicy, RestartPolicyNameEnum,
};
use warren_core::{CreateRequest, Limits, OwnerBond};
use warren_wire::guest::{AgentConfig, Rlimit, ServePlan};

use super::{etc, far};
use crate::linux::{PROGRAM, seccomp_document, seccomp_program};
use crate::oci::{MASKED, READ_ONLY, kept_capabilities};

/// Labels by which a container of ours is known.
pub(super) const INSTANCE: &str = "warren.instance";
pub(super) const SANDBOX: &str = "warren.sandbox";

/// The engine's word for a process that was killed for its memory.
pub(super) const KILLED: &str = "oom";

/// Where the agent and the shared directory are inside: one place, which is no file of the
/// sandbox's.
pub(super) const AGENT: &str = "/.warren";
const SHARED: &str = "/.warren/run";
const SOCKET: &str = "/.warren/run/agent.sock";
/// Its name in the agent's directory.
pub(super) const SHARED_NAME: &str = "run";

/// Things that a container is given besides its image.
#[derive(Debug, Clone, Copy)]
pub(super) enum Given<'a> {
    /// Directories of the machine that the engine is on, too.
    Here {
        agent: &'a Path,
        shared: &'a Path,
        /// The sandbox's own.
        directory: &'a Path,
        /// The container in whose network it is started. Without one it has no network.
        door: Option<&'a str>,
    },
    /// The volume with the agent, on an engine elsewhere.
    Far { volume: &'a str },
}

impl Given<'_> {
    fn door(&self) -> Option<&str> {
        match self {
            Self::Here { door, .. } => *door,
            Self::Far { .. } => None,
        }
    }

    fn mounts(&self) -> io::Result<Vec<Mount>> {
        match self {
            Self::Far { volume } => Ok(vec![self::volume(volume, true)]),
            Self::Here { agent, shared, directory, door } => {
                let mut mounts = vec![bind(agent, AGENT, true)?, bind(shared, SHARED, false)?];
                if door.is_some() {
                    for (path, inside) in etc::files(directory) {
                        mounts.push(bind(&path, inside, true)?);
                    }
                }
                Ok(mounts)
            }
        }
    }

    /// The agent's command line.
    fn words(&self) -> Vec<String> {
        let plan = match self {
            Self::Here { .. } => ["--plan", "/.warren/run/plan"],
            // It gets into the container as one of its files.
            Self::Far { .. } => ["--take-plan", far::PLAN],
        };
        ["serve", SOCKET].into_iter().chain(plan).map(str::to_owned).collect()
    }
}

/// The request for a container. `image` is the image's id.
pub(super) fn body(
    request: &CreateRequest,
    image: &str,
    instance: &str,
    given: Given<'_>,
) -> io::Result<ContainerCreateBody> {
    let text = |word: &str| word.to_owned();
    let bound = request.owner == OwnerBond::DiesWithOwner;
    Ok(ContainerCreateBody {
        image: Some(text(image)),
        // An image's own command, checks and stop signal are not for the agent.
        entrypoint: Some(vec![format!("{AGENT}/{PROGRAM}")]),
        cmd: Some(given.words()),
        healthcheck: Some(HealthConfig { test: Some(vec![text("NONE")]), ..HealthConfig::default() }),
        stop_signal: Some(text("SIGKILL")),
        user: Some(text("0:0")),
        working_dir: Some(text("/")),
        env: Some(Vec::new()),
        // Who is in the network of another cannot have a name of its own: it gets one later.
        hostname: given.door().is_none().then(|| text(etc::hostname(request))),
        tty: Some(false),
        attach_stdin: Some(false),
        attach_stdout: Some(false),
        attach_stderr: Some(false),
        // Its standard input is closed when this process ends.
        open_stdin: Some(bound),
        stdin_once: Some(bound),
        labels: Some(HashMap::from([
            (text(INSTANCE), text(instance)),
            (text(SANDBOX), request.id.to_string()),
        ])),
        host_config: Some(host(request, given)?),
        ..ContainerCreateBody::default()
    })
}

fn host(request: &CreateRequest, given: Given<'_>) -> io::Result<HostConfig> {
    let text = |word: &str| word.to_owned();
    let limits = &request.spec.limits;
    let number = |count: u64| Some(i64::try_from(count).unwrap_or(i64::MAX));
    let filter = seccomp_document(request.spec.profile);
    // Where an agent elsewhere has its socket: nothing of it outlives the agent.
    let run = matches!(given, Given::Far { .. })
        .then(|| HashMap::from([(text(SHARED), text("size=64k,nr_inodes=16,mode=0700"))]));
    Ok(HostConfig {
        privileged: Some(false),
        cap_drop: Some(vec![text("ALL")]),
        cap_add: Some(kept_capabilities().into_iter().map(text).collect()),
        security_opt: Some(vec![text("no-new-privileges"), format!("seccomp={filter}")]),
        masked_paths: Some(MASKED.iter().map(|path| text(path)).collect()),
        readonly_paths: Some(READ_ONLY.iter().map(|path| text(path)).collect()),
        network_mode: Some(given.door().map_or_else(|| text("none"), |door| format!("container:{door}"))),
        ipc_mode: Some(text("private")),
        pid_mode: Some(String::new()),
        uts_mode: Some(String::new()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        devices: Some(Vec::new()),
        volumes_from: Some(Vec::new()),
        mounts: Some(given.mounts()?),
        tmpfs: run,
        memory: number(limits.memory.0),
        // Memory and swap together: none of it is swap.
        memory_swap: number(limits.memory.0),
        oom_kill_disable: Some(false),
        shm_size: number((limits.memory.0 / 2).max(1 << 20)),
        pids_limit: number(limits.pids.into()),
        nano_cpus: number(u64::from(limits.cpus.milli()).saturating_mul(1_000_000)),
        init: Some(false),
        auto_remove: Some(false),
        readonly_rootfs: Some(false),
        publish_all_ports: Some(false),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        // What the agent says is for nobody, and a log would grow without a limit.
        log_config: Some(HostConfigLogConfig { typ: Some(text("none")), config: None }),
        ..HostConfig::default()
    })
}

/// The request for the door of a data directory: our agent's binary on a root that it cannot write
/// to, with the one right that it takes to enter a network.
pub(super) fn door(
    image: &str,
    instance: &str,
    agent: &Path,
    shared: &Path,
) -> io::Result<ContainerCreateBody> {
    let text = |word: &str| word.to_owned();
    let host = HostConfig {
        privileged: Some(false),
        cap_drop: Some(vec![text("ALL")]),
        cap_add: Some(vec![text("CAP_SYS_ADMIN")]),
        security_opt: Some(vec![text("no-new-privileges")]),
        network_mode: Some(text("none")),
        ipc_mode: Some(text("none")),
        pid_mode: Some(String::new()),
        uts_mode: Some(String::new()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        devices: Some(Vec::new()),
        mounts: Some(vec![bind(agent, AGENT, true)?, bind(shared, SHARED, false)?]),
        readonly_rootfs: Some(true),
        memory: Some(64 << 20),
        memory_swap: Some(64 << 20),
        pids_limit: Some(8),
        init: Some(false),
        auto_remove: Some(false),
        publish_all_ports: Some(false),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        log_config: Some(HostConfigLogConfig { typ: Some(text("none")), config: None }),
        ..HostConfig::default()
    };
    Ok(ContainerCreateBody {
        image: Some(text(image)),
        entrypoint: Some(vec![format!("{AGENT}/{PROGRAM}")]),
        cmd: Some(vec![text("door"), format!("{SHARED}/door.sock")]),
        healthcheck: Some(HealthConfig { test: Some(vec![text("NONE")]), ..HealthConfig::default() }),
        stop_signal: Some(text("SIGKILL")),
        user: Some(text("0:0")),
        working_dir: Some(text("/")),
        env: Some(Vec::new()),
        labels: Some(HashMap::from([(text(INSTANCE), text(instance))])),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    })
}

/// The request for a container that is never started: through it files get into a volume.
pub(super) fn helper(image: &str, instance: &str, name: &str) -> ContainerCreateBody {
    ContainerCreateBody {
        image: Some(image.to_owned()),
        entrypoint: Some(vec![format!("{AGENT}/{PROGRAM}")]),
        labels: Some(HashMap::from([(INSTANCE.to_owned(), instance.to_owned())])),
        host_config: Some(HostConfig {
            privileged: Some(false),
            network_mode: Some("none".to_owned()),
            mounts: Some(vec![volume(name, false)]),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}

/// The request for a relay to the agent, in a container that runs.
pub(super) fn relay() -> ExecConfig {
    ExecConfig {
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(false),
        cmd: Some(vec![format!("{AGENT}/{PROGRAM}"), "relay".to_owned(), SOCKET.to_owned()]),
        privileged: Some(false),
        user: Some("0:0".to_owned()),
        working_dir: Some("/".to_owned()),
        ..ExecConfig::default()
    }
}

/// A volume at the agent's place. Nothing of an image is copied into it.
fn volume(name: &str, read_only: bool) -> Mount {
    Mount {
        typ: Some(MountType::VOLUME),
        source: Some(name.to_owned()),
        target: Some(AGENT.to_owned()),
        read_only: Some(read_only),
        volume_options: Some(MountVolumeOptions { no_copy: Some(true), ..MountVolumeOptions::default() }),
        ..Mount::default()
    }
}

fn bind(source: &Path, target: &str, read_only: bool) -> io::Result<Mount> {
    let source = source.to_str().ok_or_else(|| {
        io::Error::other(format!("`{}` is no text that an engine can read", source.display()))
    })?;
    Ok(Mount {
        typ: Some(MountType::BIND),
        source: Some(source.to_owned()),
        target: Some(target.to_owned()),
        read_only: Some(read_only),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    })
}

/// The agent's plan. User, directory and variables are the request's, and where it says nothing the
/// image's.
pub(super) fn plan(request: &CreateRequest, image: &ImageConfig) -> ServePlan {
    let named = |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(Into::into);
    let user = request.user.as_deref().map(Into::into).or_else(|| named(&image.user));
    let cwd = request.workdir.as_ref().map(Into::into).or_else(|| named(&image.working_dir));
    ServePlan {
        lifeline_at: None,
        agent: AgentConfig { env: environment(request, image).map(Into::into).collect(), user, cwd },
        rlimits: rlimits(&request.spec.limits),
        cpus: Vec::new(),
        seccomp: seccomp_program(request.spec.profile),
        lifeline: (request.owner == OwnerBond::DiesWithOwner).then_some(0),
        machine: None,
    }
}

/// The image's variables with the request's on top.
fn environment<'a>(request: &'a CreateRequest, image: &'a ImageConfig) -> impl Iterator<Item = &'a str> {
    let name = |entry: &str| entry.split('=').next().unwrap_or_default().to_owned();
    let own: Vec<String> = request.env.iter().map(|entry| name(entry)).collect();
    let images = image.env.iter().flatten().filter(move |entry| !own.contains(&name(entry)));
    images.chain(&request.env).map(String::as_str)
}

fn rlimits(limits: &Limits) -> Vec<Rlimit> {
    let table = [
        // One means no core dump at all, not even to a program that the host's core pattern names.
        (libc::RLIMIT_CORE, 1),
        (libc::RLIMIT_NOFILE, limits.open_files),
        (libc::RLIMIT_MEMLOCK, 64 << 10),
        (libc::RLIMIT_MSGQUEUE, 819_200),
        (libc::RLIMIT_SIGPENDING, 4096),
        (libc::RLIMIT_RTPRIO, 0),
        (libc::RLIMIT_NICE, 0),
    ];
    table.into_iter().map(|(resource, value)| Rlimit { resource, value }).collect()
}

#[cfg(test)]
mod tests {
    use warren_core::{FoundImage, SandboxId, SandboxSpec, TemplateName};

    use super::*;

    fn request() -> CreateRequest {
        let image: warren_core::RootImage = "busybox".parse::<warren_core::RootImageName>().unwrap().into();
        let found = FoundImage { image, trees: Vec::new() };
        let mut spec = SandboxSpec::new(TemplateName::host());
        spec.env = [("A".to_owned(), "ours".to_owned())].into();
        CreateRequest::on_image(SandboxId::from_random([1; 16]), &spec, OwnerBond::Outlives, found)
    }

    #[test]
    fn nothing_of_the_machine_is_given_but_the_agent_and_its_directory() {
        let (agent, shared) = (Path::new("/data/agent"), Path::new("/data/s/shared"));
        let given = |door| Given::Here { agent, shared, directory: Path::new("/data/s"), door };
        let within = body(&request(), "sha256:1", "inst", given(Some("door"))).unwrap();
        assert_eq!(within.hostname, None);
        let within = within.host_config.unwrap();
        assert_eq!(within.network_mode.as_deref(), Some("container:door"));
        let own = within.mounts.unwrap().into_iter().skip(2).all(|mount| mount.read_only == Some(true));
        assert!(own, "nothing that names hosts is shared or written to");
        let door = super::door("sha256:1", "inst", agent, shared).unwrap().host_config.unwrap();
        assert_eq!(door.cap_add, Some(vec!["CAP_SYS_ADMIN".to_owned()]));
        assert_eq!((door.privileged, door.readonly_rootfs), (Some(false), Some(true)));
        let far = super::body(&request(), "sha256:1", "inst", Given::Far { volume: "agent" }).unwrap();
        let host = far.host_config.unwrap();
        let mounts = host.mounts.unwrap();
        assert_eq!(
            (mounts.len(), mounts[0].typ, mounts[0].read_only),
            (1, Some(MountType::VOLUME), Some(true))
        );
        assert_eq!((host.network_mode.as_deref(), host.binds), (Some("none"), None));
        let body = super::body(&request(), "sha256:1", "inst", given(None)).unwrap();
        let host = body.host_config.unwrap();
        let mounts: Vec<_> = host.mounts.unwrap().into_iter().map(|mount| mount.target.unwrap()).collect();
        assert_eq!(mounts, [AGENT, SHARED]);
        assert!(host.binds.is_none() && host.devices == Some(Vec::new()) && host.device_requests.is_none());
        assert_eq!((host.privileged, host.network_mode.as_deref()), (Some(false), Some("none")));
        assert_eq!((host.pid_mode.as_deref(), host.ipc_mode.as_deref()), (Some(""), Some("private")));
        assert_eq!(host.memory, host.memory_swap);
        assert_eq!(host.cap_drop, Some(vec!["ALL".to_owned()]));
        assert!(
            host.cap_add.is_some_and(|kept| kept.len() <= 8 && !kept.contains(&"CAP_SYS_ADMIN".to_owned()))
        );
        let options = host.security_opt.unwrap();
        assert!(options[0] == "no-new-privileges" && options[1].starts_with("seccomp={"), "{options:?}");
    }

    #[test]
    fn the_request_is_asked_before_the_image() {
        let image = ImageConfig {
            env: Some(vec!["A=image".to_owned(), "B=image".to_owned()]),
            user: Some("build".to_owned()),
            working_dir: Some("/src".to_owned()),
            ..ImageConfig::default()
        };
        let plan = plan(&request(), &image);
        assert_eq!(plan.agent.env, ["B=image".into(), "A=ours".into()]);
        assert_eq!(plan.agent.user, Some("build".into()));
        let asked = CreateRequest { user: Some("root".to_owned()), workdir: Some("/".into()), ..request() };
        let plan = super::plan(&asked, &image);
        assert_eq!((plan.agent.user, plan.agent.cwd), (Some("root".into()), Some("/".into())));
        assert!(!plan.seccomp.is_empty() && plan.lifeline.is_none());
    }
}

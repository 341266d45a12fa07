use super::{IDLE, PYTHON, Peer, PeerError, Place, TRUE, first_line};
use crate::errand::Errand;
use crate::ground::Ground;
use crate::plan::Subject;

/// Docker, if a daemon answers. The image holds the skeleton; binds of the others are volumes here.
pub(super) fn peer(ground: &Ground, program: &str) -> Result<Peer, PeerError> {
    let version = first_line(&[program, "version", "--format", "{{.Server.Version}}"]);
    let version = version.ok_or(PeerError::NoDaemon)?;
    let (archive, rootfs) = (ground.file("image.tar"), ground.rootfs.display().to_string());
    let archive = archive.display().to_string();
    let (image, idle) = (ground.prefix.as_str(), format!("{}-idle", ground.prefix));
    let limits = &ground.limits;
    let mut options = vec!["--network=none".to_owned(), "--tmpfs=/tmp".to_owned(), "--read-only".to_owned()];
    options.push(format!("--memory={}", limits.memory.0));
    options.push(format!("--pids-limit={}", limits.pids));
    options.push(format!("--cpus={}", f64::from(limits.cpus.milli()) / 1000.0));
    options.extend(ground.volumes().map(|volume| format!("--volume={volume}")));
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let run = |how: &[&str], argv: &[&str]| {
        Errand::new([&[program, "run"], how, &options[..], &[image], argv].concat())
    };
    let clear = |prefix: &str| {
        let idle = format!("{prefix}-idle");
        [Errand::new([program, "rm", "--force", &idle]), Errand::new([program, "rmi", "--force", prefix])]
            .to_vec()
    };
    Ok(Peer {
        subject: Subject::Docker,
        version: Some(version),
        place: Place::Here,
        run_true: run(&["--rm"], &TRUE),
        run_python: run(&["--rm"], &PYTHON),
        exec_true: Some(Errand::new([program, "exec", &idle, TRUE[0]])),
        prepare: vec![
            Errand::new(["tar", "-C", &rootfs, "-cf", &archive, "."]),
            Errand::new([program, "import", &archive, image]),
            run(&["--detach", "--name", &idle], &IDLE),
        ],
        clear: clear(&ground.prefix),
        clear_abandoned: ground.abandoned.iter().flat_map(|prefix| clear(prefix)).collect(),
    })
}

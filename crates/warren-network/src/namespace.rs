//! Network namespaces: made, visited, and found again.
//!
//! They belong to the host's user namespace, so no sandbox has any right over the one it is given.
//! Only threads that end, or that go home, ever leave the host's.

mod sys;

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::thread::LinkNameSpaceType;

/// The calling thread's.
pub(crate) fn current() -> io::Result<OwnedFd> {
    Ok(fs::File::open("/proc/thread-self/ns/net")?.into())
}

/// Makes a namespace and does something in it, in a thread of its own that ends with it.
pub(crate) fn make<T: Send>(
    work: impl FnOnce(BorrowedFd<'_>) -> io::Result<T> + Send,
) -> io::Result<(OwnedFd, T)> {
    elsewhere(move || {
        sys::unshare_network()?;
        let namespace = current()?;
        let done = work(namespace.as_fd())?;
        Ok((namespace, done))
    })
}

/// Does something in another namespace, in a thread of its own.
pub(crate) fn visit<T: Send>(
    namespace: BorrowedFd<'_>,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    elsewhere(move || {
        rustix::thread::move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))?;
        work()
    })
}

fn elsewhere<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("warren-netns".to_owned()).spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that went there panicked")))
    })
}

/// Of a process that may be gone by now.
pub(crate) fn of_process(pid: u32) -> io::Result<OwnedFd> {
    Ok(fs::File::open(format!("/proc/{pid}/ns/net"))?.into())
}

/// All processes that can be seen.
pub(crate) fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Sets what the calling thread's namespace has under `/proc/sys/net`.
pub(crate) fn set_sysctl(name: &str, value: &str) -> io::Result<()> {
    let path = format!("/proc/sys/net/{name}");
    fs::write(&path, value)
        .map_err(|error| io::Error::new(error.kind(), format!("write `{value}` to {path}: {error}")))
}

/// `None` if the kernel has no such setting.
pub(crate) fn sysctl(name: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/sys/net/{name}")).ok().map(|value| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_namespace_is_another_and_can_be_visited() {
        let identity = |namespace: BorrowedFd<'_>| rustix::fs::fstat(namespace).unwrap().st_ino;
        let here = current().unwrap();
        let Ok((made, seen)) = make(|namespace| Ok(identity(namespace))) else {
            assert!(!rustix::process::geteuid().is_root(), "root may make namespaces");
            return;
        };
        assert_eq!(identity(made.as_fd()), seen);
        assert_ne!(identity(here.as_fd()), seen);
        assert_eq!(identity(current().unwrap().as_fd()), identity(here.as_fd()), "this thread has stayed");
        let visited = visit(made.as_fd(), || Ok(identity(current()?.as_fd()))).unwrap();
        assert_eq!(visited, seen);
        let forwarding = visit(made.as_fd(), || {
            set_sysctl("ipv4/ip_unprivileged_port_start", "7")?;
            Ok(sysctl("ipv4/ip_unprivileged_port_start"))
        });
        assert_eq!(forwarding.unwrap().as_deref(), Some("7"));
        assert_ne!(sysctl("ipv4/ip_unprivileged_port_start").as_deref(), Some("7"));
    }
}

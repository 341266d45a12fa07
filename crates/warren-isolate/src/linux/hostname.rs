//! The name of the machine that a sandbox sees, where its runtime cannot give it one.

use std::fs;
use std::io;
use std::os::fd::AsFd as _;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Names the machine that a process of the sandbox lives on. A thread of its own goes there, and
/// ends.
pub(crate) fn set_hostname(pid: u32, name: &str) -> io::Result<()> {
    let names = fs::File::open(format!("/proc/{pid}/ns/uts"))?;
    let own = fs::File::open("/proc/self/ns/uts")?;
    let identity = |file: &fs::File| rustix::fs::fstat(file).map(|stat| (stat.st_dev, stat.st_ino));
    if identity(&names)? == identity(&own)? {
        return Err(io::Error::other("it has the name of this machine"));
    }
    let name = name.to_owned();
    let named = std::thread::Builder::new().name("warren-hostname".to_owned()).spawn(move || {
        move_into_link_name_space(names.as_fd(), Some(LinkNameSpaceType::HostNameAndNISDomainName))?;
        rustix::system::sethostname(name.as_bytes())
    })?;
    Ok(named.join().unwrap_or(Err(rustix::io::Errno::INVAL))?)
}

# Where a sandbox has a kernel of its own: none of the host's is behind it. Arguments: a file that exists on the host only, the
# host's name, its boot line, and the release of its kernel.
import socket, stat
canary, hostname, cmdline, release = sys.argv[1:5]
REFUSED = ("EPERM", "EACCES", "ENOSYS", "EINVAL", "EBADF", "EFAULT", "ENOENT", "ENODEV", "EOPNOTSUPP", "ENOTSUP", "ENOTTY")

def content(path):
    try:
        with open(path, "rb") as file:
            return file.read(65536)
    except OSError:
        return b""

# Nodes of devices are names: nothing of the host answers behind them, and on disk there are none.
for number, (kind, major, minor) in enumerate(((stat.S_IFBLK, 254, 0), (stat.S_IFBLK, 8, 0), (stat.S_IFCHR, 1, 1), (stat.S_IFCHR, 1, 11),
                                               (stat.S_IFBLK, 7, 0), (stat.S_IFCHR, 10, 237), (stat.S_IFCHR, 10, 232))):
    for directory in ("/tmp", "/home/user", "/dev/shm"):
        path = f"{directory}/node{number}"
        if error_of(lambda: os.mknod(path, kind | 0o600, os.makedev(major, minor))) == "done":
            answer = error_of(lambda: os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK)))
            assert answer in ("ENXIO", "ENODEV", "EACCES", "EPERM"), (path, major, minor, answer)
            os.unlink(path)
# Nothing is mounted, and roots lead to its own.
for kind in (b"tmpfs", b"proc", b"sysfs", b"overlay", b"cgroup", b"ext4"):
    assert call(165, b"none", b"/tmp", kind, 0, 0) in ("EPERM", "ENODEV"), kind
assert call(165, b"/", b"/tmp", 0, 4096, 0) == "EPERM"
for target in (b"/proc", b"/dev", b"/run/warren", b"/"):
    assert call(166, target, 2) in ("EPERM", "EINVAL"), target
for pid in [name for name in os.listdir("/proc") if name.isdigit()] + ["self"]:
    for name in ("root", "cwd"):
        assert not os.path.exists(f"/proc/{pid}/{name}{canary}"), (pid, name)
assert not os.path.exists(canary)
# Modules, keys, bpf, perf, io_uring, kexec, clocks and names of the host.
CALLS = {"init_module": (175, 0, 0, 0), "finit_module": (313, -1, 0, 0), "delete_module": (176, 0, 0), "keyctl": (250, 0, 0, 0),
         "add_key": (248, 0, 0, 0, 0, 0), "bpf": (321, 0, 0, 0), "perf_event_open": (298, 0, 0, -1, -1, 0), "userfaultfd": (323, 1),
         "io_uring_setup": (425, 1, 0), "kexec_load": (246, 0, 0, 0, 0), "reboot": (169, 0, 0, 0, 0), "swapon": (167, 0, 0),
         "settimeofday": (164, 0, 0), "clock_settime": (227, 0, 0), "iopl": (172, 3), "open_by_handle_at": (304, -1, 0, 0),
         "acct": (163, 0), "quotactl": (179, 0, 0, 0, 0), "pidfd_getfd": (438, -1, 0, 0)}
refused = {name: call(*words) for name, words in CALLS.items()}
worked = {name: answer for name, answer in refused.items() if answer not in REFUSED}
assert not worked, worked
# The kernel is another, and tells of another machine.
assert os.uname().release != release and os.uname().nodename != hostname
for name in ("cmdline", "kallsyms", "kcore", "keys", "modules", "partitions", "diskstats", "iomem", "sched_debug", "timer_list"):
    text = content(f"/proc/{name}")
    assert cmdline.encode() not in text and len(text) < 256, (name, text[:100])
for path in ("/etc/machine-id", "/etc/ssh/ssh_host_ed25519_key", "/root/.ssh/authorized_keys"):
    assert content(path) == b"", path
assert hostname.encode() not in content("/etc/hostname") + content("/proc/sys/kernel/hostname")
mounts = content("/proc/self/mountinfo") + content("/proc/self/mounts")
assert b"sbx" not in mounts and b"/sandboxes/" not in mounts and os.path.dirname(canary).encode() not in mounts, mounts
# No link to anywhere.
assert [name for _, name in socket.if_nameindex()] in (["lo"], []), socket.if_nameindex()
with socket.socket() as outside:
    outside.settimeout(2)
    assert error_of(lambda: outside.connect(("198.51.100.10", 80))) in ("ENETUNREACH", "EHOSTUNREACH"), "a way out"
for family in (17, 38, 40):
    assert error_of(lambda: socket.socket(family, socket.SOCK_RAW)) != "done", family
print("ok")

# Arguments: the host's name and its boot line.
hostname, cmdline = sys.argv[1:3]

def content(path):
    try:
        with open(path, "rb") as file:
            return file.read(4096)
    except OSError as failure:
        assert failure.errno in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EINVAL), (path, failure)
        return b""

for name in ("cmdline", "kallsyms", "kmsg", "keys", "key-users", "interrupts", "modules", "partitions",
             "diskstats", "swaps", "timer_list", "timer_stats", "sched_debug", "kcore", "latency_stats",
             "sysrq-trigger", "kpagecount", "kpageflags", "slabinfo", "vmallocinfo", "pagetypeinfo"):
    assert content(f"/proc/{name}") == b"", name
# The kernel itself hides every address of these.
for name in ("iomem", "ioports"):
    for line in content(f"/proc/{name}").splitlines():
        assert not set(line.split(b" : ")[0].strip()) - set(b"0-"), (name, line)
for name in ("scsi", "acpi", "asound", "bus", "driver", "fs", "irq", "tty"):
    path = f"/proc/{name}"
    assert not os.path.exists(path) or os.listdir(path) == [], path
# Of /sys there is only how many processors the sandbox has.
told = [os.path.join(here, name) for here, _, names in os.walk("/sys") for name in names]
assert sorted(told) == [f"/sys/devices/system/cpu/{name}" for name in ("online", "possible", "present")], told
assert os.uname().nodename != hostname and content("/proc/sys/kernel/hostname").strip().decode() != hostname
with open("/etc/hostname") as file:
    assert file.read().strip() != hostname
with open("/proc/self/mountinfo") as file:
    mounts = file.read()
assert cmdline not in mounts and " /host" not in mounts
assert len(mounts.splitlines()) < 60
# The kernel's log and the identity of the machine.
assert content("/dev/kmsg") == b"" and not os.path.exists("/dev/kmsg")
for path in ("/etc/machine-id", "/var/lib/dbus/machine-id", "/etc/ssh/ssh_host_ed25519_key", "/root/.ssh", "/root/.bash_history"):
    assert content(path) == b"" if not os.path.isdir(path) else not os.listdir(path), path
# Accounts of the sandbox's own, none of which has a password.
accounts = [line.split(b":") for line in content("/etc/shadow").splitlines()]
with open("/etc/passwd", "rb") as file:
    known = {line.split(b":")[0] for line in file}
assert all(account[0] in known and account[1] in (b"*", b"!") for account in accounts), accounts
assert not os.path.exists("/run/docker.sock") and not os.path.exists("/var/run/docker.sock")
assert set(os.listdir("/run")) <= {"lock", "warren"}, os.listdir("/run")
assert sorted(os.listdir("/home")) == ["user"]
print("ok")

MOUNT, UMOUNT = 165, 166
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_MOVE, MS_PRIVATE, MS_SHARED = 1, 32, 4096, 8192, 1 << 18, 1 << 20

def table():
    with open("/proc/self/mountinfo") as file:
        return file.read()

before = table()
os.makedirs("/tmp/at", exist_ok=True)
for kind in ("tmpfs", "proc", "sysfs", "devpts", "overlay", "cgroup", "cgroup2", "mqueue", "bpf", "fuse", "ext4", "nfs"):
    assert call(MOUNT, b"none", b"/tmp/at", kind.encode(), 0, 0) == "EPERM", kind
for source, target, flags in (
    (b"/", b"/tmp/at", MS_BIND),
    (b"/proc", b"/tmp/at", MS_BIND | 16384),
    (b"/proc/sys", b"/tmp/at", MS_MOVE),
    (b"none", b"/proc/sys", MS_REMOUNT | MS_BIND),
    (b"none", b"/proc/sys", MS_REMOUNT),
    (b"none", b"/", MS_REMOUNT),
    (b"none", b"/dev", MS_REMOUNT | MS_BIND),
    (b"none", b"/", MS_PRIVATE),
    (b"none", b"/", MS_SHARED),
):
    assert call(MOUNT, source, target, 0, flags, 0) == "EPERM", (source, target, flags)
for target in ("/proc/kallsyms", "/proc/cmdline", "/proc/sys", "/dev/shm", "/dev", "/run", "/usr", "/"):
    for flags in (0, 2, 8):
        assert call(UMOUNT, target.encode(), flags) == "EPERM", target
assert table() == before
if sys.argv[1:] == ["refusals"]:
    print("ok")
    sys.exit()
# What is mounted is mounted the safe way.
for line in before.splitlines():
    fields = line.split(" ")
    at, options = fields[4], fields[5].split(",")
    assert "nosuid" in options, line
    if at == "/proc/sys" or at == "/dev" or (at.startswith("/proc/")):
        assert "ro" in options, line
    if not at.startswith(("/dev", "/proc/")):
        assert "nodev" in options, line
print("ok")

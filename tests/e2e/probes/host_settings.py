REFUSED = ("EROFS", "EACCES", "EPERM", "ENOENT")
paths = ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper", "/proc/sys/kernel/modprobe",
         "/proc/sys/kernel/hotplug", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/hostname", "/proc/sys/vm/overcommit_memory",
         "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv4/ip_unprivileged_port_start", "/proc/sys/fs/binfmt_misc/register",
         "/proc/irq/0/smp_affinity", "/proc/acpi/wakeup", "/proc/sys/kernel/ns_last_pid", "/proc/timer_stats"]
def is_covered(path):
    """What is written there goes nowhere: the null device is in its place."""
    return os.stat(path).st_rdev == os.makedev(1, 3)

for path in paths:
    answer = write_to(path, "")
    assert answer in REFUSED or is_covered(path), (path, answer)
# Nothing below /proc/sys and /sys is writable, whatever its name.
for top in ("/proc/sys", "/sys"):
    for here, _, files in os.walk(top):
        for name in files:
            path = os.path.join(here, name)
            answer = error_of(lambda: os.close(os.open(path, os.O_WRONLY)))
            assert answer in REFUSED, (path, answer)
assert os.listdir("/sys") == ["devices"]
# Its own settings of scheduling and scoring may be worse, never better.
assert write_to("/proc/self/oom_score_adj", "-1000") != "done"
assert error_of(lambda: os.nice(-5)) in ("EPERM", "EACCES")
print("ok")

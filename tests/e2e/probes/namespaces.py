FLAGS = {"time": 0x80, "mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000,
         "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000}
CLONE, UNSHARE, SETNS, CLONE3 = 56, 272, 308, 435

def namespaces():
    return {name: os.readlink(f"/proc/self/ns/{name}") for name in sorted(os.listdir("/proc/self/ns"))}

before = namespaces()
combined = {"everything": sum(FLAGS.values()), "user and mount": 0x10020000}
for name, flag in {**FLAGS, **combined}.items():
    answer = call(UNSHARE, flag)
    assert answer == "EPERM", ("unshare", name, answer)
    # In a clone this bit is part of the exit signal and means no namespace.
    if name != "time":
        answer = call(CLONE, flag | 17, 0, 0, 0, 0)
        if answer == 0:
            os._exit(1)
        assert answer == "EPERM", ("clone", name, answer)
        # The kernel reads 64 bits of flags: the upper ones change nothing.
        answer = call(CLONE, flag | 17 | 1 << 40, 0, 0, 0, 0)
        if answer == 0:
            os._exit(1)
        assert answer == "EPERM", ("clone", name, answer)
    arguments = (ctypes.c_uint64 * 11)(flag, 0, 0, 0, 17)
    answer = call(CLONE3, arguments, 88)
    if answer == 0:
        os._exit(1)
    assert answer == "ENOSYS", ("clone3", name, answer)
for name in os.listdir("/proc/self/ns"):
    descriptor = os.open(f"/proc/self/ns/{name}", os.O_RDONLY)
    for flag in (0, *FLAGS.values()):
        answer = call(SETNS, descriptor, flag)
        assert answer == "EPERM", ("setns", name, answer)
pidfd = os.pidfd_open(os.getpid())
assert call(SETNS, pidfd, sum(FLAGS.values())) == "EPERM"
assert namespaces() == before
print("ok")

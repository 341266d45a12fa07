# As root inside: everything that changes another process, tried on PID 1 and each of its threads. Prints what was let through.
import struct
PRLIMIT, SETPRIORITY, SCHED_SETPARAM, SCHED_SETSCHEDULER = 302, 141, 142, 144
SCHED_SETAFFINITY, SCHED_SETATTR, IOPRIO_SET, PTRACE = 203, 314, 251, 101
tids = [1] + [int(name) for name in os.listdir("/proc/1/task")]
for tid in tids:
    few = struct.pack("QQ", 4, 4)
    attempts = {
        "limit of files": (PRLIMIT, tid, 7, few, 0),
        "limit of processes": (PRLIMIT, tid, 6, few, 0),
        "limit of memory": (PRLIMIT, tid, 9, few, 0),
        "reading a limit": (PRLIMIT, tid, 7, 0, bytearray(16)),
        "priority": (SETPRIORITY, 0, tid, 19),
        "scheduler": (SCHED_SETSCHEDULER, tid, 5, struct.pack("i", 0)),
        "parameter": (SCHED_SETPARAM, tid, struct.pack("i", 0)),
        "attributes": (SCHED_SETATTR, tid, struct.pack("IIQiIQQQ", 48, 5, 0, 0, 0, 0, 0, 0), 0),
        "processors": (SCHED_SETAFFINITY, tid, 8, struct.pack("Q", 1)),
        "input and output": (IOPRIO_SET, 1, tid, 3 << 13),
        "tracing": (PTRACE, 0x4206, tid, 0, 0),
    }
    for what, (number, *arguments) in attempts.items():
        passed = [(ctypes.c_char * len(a)).from_buffer(a) if isinstance(a, bytearray) else a for a in arguments]
        answer = call(number, *passed)
        if isinstance(answer, int) and answer >= 0:
            print(what, "of", tid)
for what, which, who in (("user", 2, 0), ("group", 1, 0)):
    call(SETPRIORITY, which, who, 5)
with open("/proc/1/stat") as stat:
    nice = stat.read().rsplit(")", 1)[1].split()[16]
if nice != "0":
    print("priority by user or group:", nice)
for name in ("oom_score_adj", "timerslack_ns", "coredump_filter"):
    if write_to(f"/proc/1/{name}", "1") == "done":
        print("writing", name)
for name in ("environ", "mem", "maps", "cwd/.", "fd/0"):
    if error_of(lambda: open(f"/proc/1/{name}", "rb").close() if name != "cwd/." else os.listdir(f"/proc/1/{name}")) == "done":
        print("reading", name)
print("tried", len(tids) > 1)

# Looks for the traces of `neighbour_here`.
import socket
def connects(family, address):
    with socket.socket(family) as probe:
        probe.settimeout(2)
        return error_of(lambda: probe.connect(address)) == "done"

seen = {
    "abstract socket": connects(socket.AF_UNIX, "\0warren-neighbour"),
    "loopback": connects(socket.AF_INET, ("127.0.0.1", 4711)),
    "shm file": os.path.exists("/dev/shm/neighbour"),
    "tmp file": os.path.exists("/tmp/neighbour"),
    "shared memory": isinstance(call(29, 0x5741, 4096, 0), int),
    "posix queue": isinstance(call(240, b"neighbour", os.O_RDWR, 0, 0), int),
    "queue": isinstance(call(68, 0x5741, 0), int),
    "process": any(b"neighbour-here" in open(f"/proc/{pid}/cmdline", "rb").read() or b"warren-neighbour" in open(f"/proc/{pid}/cmdline", "rb").read().replace(b"connects", b"")
                   for pid in filter(str.isdigit, os.listdir("/proc")) if pid not in ("1", str(os.getpid()))),
    "unix table": "warren-neighbour" in open("/proc/net/unix").read(),
}
print("all" if all(seen.values()) else "nothing" if not any(seen.values()) else seen)

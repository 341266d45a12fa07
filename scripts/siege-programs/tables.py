# Takes all of everything that the kernel counts: files, watches, timers, queues, locks, terminals,
# pipes, semaphores, pressure triggers.
import ctypes, fcntl, os, select, socket, time

libc = ctypes.CDLL(None, use_errno=True)
held = []

def locked():
    file = open(f"/tmp/lock-{os.getpid()}", "w")
    held.append(file)
    for at in range(20_000):
        fcntl.lockf(file, fcntl.LOCK_EX, 1, at * 2)

def pressure():
    file = os.open("/proc/pressure/cpu", os.O_RDWR)
    held.append(file)
    os.write(file, b"some 500000 1000000\0")

def watched():
    instance = libc.inotify_init1(0)
    if instance < 0:
        raise OSError("no instance")
    for place, _, _ in os.walk("/usr/share"):
        if libc.inotify_add_watch(instance, place.encode(), 0xFFF) < 0:
            raise OSError("no watch")

TAKE = (
    lambda: held.append(os.open("/etc/passwd", os.O_RDONLY)),
    lambda: held.append(socket.socket()),
    lambda: held.append(select.epoll()),
    lambda: held.append(os.pipe()),
    lambda: held.append(os.eventfd(0)),
    lambda: held.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)),
    lambda: os.mkfifo(f"/dev/shm/{len(held)}-{os.getpid()}"),
    watched, locked, pressure,
)
for kind, take in enumerate(TAKE):
    if os.fork() == 0:
        while True:
            try:
                take()
            except OSError:
                time.sleep(0.01)
while True:
    libc.syscall(64, 0, 200, 0o600)
    libc.syscall(29, 0, 4096, 0o600)
    time.sleep(0.01)

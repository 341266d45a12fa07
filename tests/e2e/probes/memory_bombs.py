# One bomb of the kind that the argument names. Each stops by itself after far more than any limit of the tests.
import mmap, socket
kind, MOST, PART = sys.argv[1], 512 << 20, 1 << 20
block = b"\xa5" * PART
held = []

def fill(path):
    with open(path, "wb", buffering=0) as file:
        for _ in range(MOST // PART):
            file.write(block)

def until_refused(step):
    """At most as many steps as make MOST, at a kilobyte each."""
    for _ in range(MOST >> 10):
        answer = error_of(step)
        if answer not in ("done", "EAGAIN"):
            return

if kind == "anonymous":
    for _ in range(MOST // PART):
        held.append(bytearray(block))
elif kind == "memfd":
    held.append(os.memfd_create("bomb"))
    for _ in range(MOST // PART):
        os.write(held[0], block)
elif kind == "tmpfs":
    # Each is smaller than the limit, both together are not.
    error_of(lambda: fill("/dev/shm/bomb"))
    error_of(lambda: fill("/run/bomb"))
    error_of(lambda: fill("/run/more"))
    held.append(bytearray(MOST))
elif kind == "shared":
    area = mmap.mmap(-1, MOST)
    for start in range(0, MOST, PART):
        area[start:start + PART] = block
elif kind == "cache":
    fill("/tmp/bomb")
    with open("/tmp/bomb", "rb") as file:
        while file.read(PART):
            pass
elif kind == "pipes":
    import fcntl
    def pipe():
        reading, writing = os.pipe2(os.O_NONBLOCK)
        held.append(reading)
        error_of(lambda: fcntl.fcntl(writing, 1031, PART))
        while error_of(lambda: os.write(writing, block)) == "done":
            pass
    for _ in range(2000):
        if error_of(pipe) != "done":
            break
elif kind in ("sockets", "datagrams"):
    for _ in range(2000):
        made = []
        style = socket.SOCK_STREAM if kind == "sockets" else socket.SOCK_DGRAM
        if error_of(lambda: made.extend(socket.socketpair(socket.AF_UNIX, style))) != "done":
            break
        held.extend(made)
        made[0].setblocking(False)
        error_of(lambda: made[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20))
        while error_of(lambda: made[0].send(block[:65536])) == "done":
            pass
elif kind == "locked":
    area = mmap.mmap(-1, PART)
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    assert call(149, address, PART) in ("ENOMEM", "EPERM", "EAGAIN"), "more was locked than the limit allows"
elif kind == "huge":
    assert error_of(lambda: held.append(mmap.mmap(-1, 2 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000))) in ("ENOMEM", "EPERM", "EINVAL")
print("survived")

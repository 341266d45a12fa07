# Programs for the kernel's compiler, by every door; each would pass everything.
import socket, struct
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000), 8)
program = Program(1, ctypes.addressof(code))
at = ctypes.byref(program)
for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
    for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
        made = socket.socket(family, kind)
        for option in (26, 51):
            assert (answer := call(54, made.fileno(), 1, option, at, 16)) == "ENOPROTOOPT", (family, kind, option, answer)
        for option in (50, 52):
            number = ctypes.c_int(-1)
            assert (answer := call(54, made.fileno(), 1, option, ctypes.byref(number), 4)) == "ENOPROTOOPT", (option, answer)
# What stays: options that everybody sets.
made = socket.socket()
for option in (socket.SO_REUSEADDR, socket.SO_KEEPALIVE, socket.SO_REUSEPORT):
    made.setsockopt(socket.SOL_SOCKET, option, 1)
made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
assert call(157, 38, 1, 0, 0, 0) == 0, "no_new_privs"
for flags in (0, 1, 2, 8):
    assert (answer := call(317, 1, flags, at)) == "EINVAL", (flags, answer)
assert (answer := call(157, 22, 2, at, 0, 0)) == "EINVAL", answer
# The kernel still tells what it could do.
action = ctypes.c_uint(0x7fff0000)
assert call(317, 2, 0, ctypes.byref(action)) == 0
# Other processes' and the machine's business.
assert call(157, 62, 1, 0, 0, 0) == "EINVAL" and call(157, 67, 1, 0, 0, 0) == "EINVAL"
print("ok")

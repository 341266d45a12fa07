# What would keep a file from being removed, take it out of the disk limit, or stop whoever opens it on the host.
import fcntl, struct
path = "/tmp/flags"
held = os.open(path, os.O_CREAT | os.O_RDWR)
flags = ctypes.c_long(0)
for bits in (0x10, 0x20, 0x20000000, 0):
    flags.value = bits
    assert (answer := call(16, held, 0x40086602, ctypes.byref(flags))) == "ENOTTY", (bits, answer)
attributes = ctypes.create_string_buffer(struct.pack("5I8x", 0, 0, 0, 4242, 0))
assert (answer := call(16, held, 0x401C5820, attributes)) == "ENOTTY", answer
assert (answer := call(72, held, 1024, 1)) == "EINVAL", answer
assert (answer := call(72, held, 1026, 1)) == "EINVAL", answer
# Modules of the host: asked for by a program without any right.
import socket
made = socket.socket()
name = ctypes.create_string_buffer(b"br0", 64)
for command in (0x8940, 0x8941, 0x89A0, 0x89A1, 0x8982, 0x8983):
    assert (answer := call(16, made.fileno(), command, name)) == "ENOTTY", (hex(command), answer)
# What stays: locks, sizes of pipes, interfaces.
fcntl.lockf(held, fcntl.LOCK_EX)
reading, writing = os.pipe()
assert fcntl.fcntl(writing, 1031, 8192) == 8192
assert (1, "lo") in socket.if_nameindex()
os.unlink(path)
print("ok")

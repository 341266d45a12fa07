import fcntl, pty
IOCTL, TIOCSTI, TIOCLINUX, TIOCSETD, TIOCGWINSZ = 16, 0x5412, 0x541C, 0x5423, 0x5413
letter = ctypes.create_string_buffer(b"x")
space = ctypes.create_string_buffer(64)
parent, child = pty.openpty()
for descriptor in (0, parent, child):
    for request in (TIOCSTI, TIOCLINUX, TIOCSETD):
        for high in (0, 1 << 32, 1 << 63, 0xffffffff << 32):
            word = ctypes.c_ulong(request | high)
            ctypes.set_errno(0)
            answer = _libc.syscall(ctypes.c_long(IOCTL), ctypes.c_long(descriptor), word, letter)
            assert answer == -1 and ctypes.get_errno() == errno.EPERM, (descriptor, hex(request | high), ctypes.get_errno())
assert call(IOCTL, child, TIOCGWINSZ, space) == 0, "other requests work"
print("ok")

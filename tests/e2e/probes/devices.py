import stat
KINDS = {"disk": (stat.S_IFBLK, 254, 0), "sda": (stat.S_IFBLK, 8, 0), "mem": (stat.S_IFCHR, 1, 1), "kmsg": (stat.S_IFCHR, 1, 11),
         "loop": (stat.S_IFBLK, 7, 0), "loop-control": (stat.S_IFCHR, 10, 237), "kvm": (stat.S_IFCHR, 10, 232),
         "fuse": (stat.S_IFCHR, 10, 229), "cuse": (stat.S_IFCHR, 10, 203), "tun": (stat.S_IFCHR, 10, 200),
         "null": (stat.S_IFCHR, 1, 3), "whiteout": (stat.S_IFCHR, 0, 0)}
for directory in ("/tmp", "/dev/shm", "/home/user", "/dev"):
    for name, (kind, major, minor) in KINDS.items():
        path = f"{directory}/made-{name}"
        answer = error_of(lambda: os.mknod(path, kind | 0o600, os.makedev(major, minor)))
        assert answer == "EPERM", (path, answer)
        assert not os.path.lexists(path), path
os.mkfifo("/tmp/fifo")
expected = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "fd", "stdin", "stdout", "stderr", "pts", "shm", "mqueue"}
assert set(os.listdir("/dev")) == expected, os.listdir("/dev")
numbers = {name: (os.major(s.st_rdev), os.minor(s.st_rdev)) for name in ("null", "zero", "full", "random", "urandom", "tty")
           for s in [os.lstat(f"/dev/{name}")] if stat.S_ISCHR(s.st_mode)}
assert numbers == {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}, numbers
assert error_of(lambda: os.unlink("/dev/null")) in ("EROFS", "EACCES", "EPERM")
assert error_of(lambda: os.chmod("/dev/null", 0o600)) in ("EROFS", "EPERM")
with open("/dev/null", "w") as file:
    file.write("gone")
with open("/dev/urandom", "rb") as file:
    assert len(file.read(16)) == 16
assert write_to("/dev/full") == "ENOSPC"
print("ok")

# Follows every link of every process in sight. `sys.argv[1]` is a file that exists on the host only.
canary = sys.argv[1]
assert not os.path.exists(canary)
root = os.stat("/")
refused, seen = 0, 0
for pid in [name for name in os.listdir("/proc") if name.isdigit()] + ["self", "thread-self"]:
    for name in ("root", "cwd", "exe"):
        path = f"/proc/{pid}/{name}"
        try:
            target = os.readlink(path)
            seen += 1
        except OSError as failure:
            assert failure.errno in (errno.EACCES, errno.EPERM, errno.ENOENT), (path, failure)
            refused += 1
            continue
        assert "/sandboxes/" not in target and "(unreachable)" not in target, (path, target)
        if name == "root":
            assert os.stat(path).st_ino == root.st_ino and os.stat(path).st_dev == root.st_dev, path
        if name != "exe":
            assert not os.path.exists(path + canary), path
            assert os.stat(path + "/../../../../../../..").st_ino == root.st_ino, path
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError as failure:
        assert failure.errno in (errno.EACCES, errno.EPERM), (pid, failure)
        refused += 1
        continue
    for number in numbers:
        path = f"/proc/{pid}/fd/{number}"
        try:
            target = os.readlink(path)
        except OSError:
            continue
        assert not os.path.exists(path + canary), path
        assert target.split(":")[0] in ("pipe", "socket", "anon_inode") or target.startswith(("/proc/", "/dev/")), (path, target)
# Of the agent nothing can be seen, not even by the sandbox's root.
assert refused >= 3 and seen >= 3, (refused, seen)
print("ok")

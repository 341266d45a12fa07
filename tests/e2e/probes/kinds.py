# Makes, changes and lists a file of every kind. The word after the program says which.
import hashlib, shutil, socket, stat

PLACES = ("/home/user/kinds", "/usr/local/kinds")
MOMENT = 1_500_000_000_123_456_789

def write(path, text, mode="w"):
    with open(path, mode) as file:
        file.write(text)

def make(base):
    os.makedirs(base)
    os.chdir(base)
    write("plain", "plain\n")
    write("empty", "")
    write("removed later", "x")
    write("in place", "a" * 100_000)
    write("replaced", "old")
    with open("sparse", "wb") as file:
        file.seek(8 << 20)
        file.write(b"end")
    os.symlink("/no/such/target", "symlink")
    write("link one", "linked")
    os.link("link one", "link two")
    os.mkfifo("fifo")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("socket")
    listener.close()
    write("program", "#!/bin/sh\n")
    os.chmod("program", 0o6751)
    write("owned", "x")
    os.chown("owned", 1234, 4321)
    os.lchown("symlink", 77, 78)
    write("attributed", "x")
    os.setxattr("attributed", "user.colour", b"blue\0green")
    os.makedirs("tree/deep/er")
    write("tree/deep/er/leaf", "leaf")
    write("tree/other", "other")
    os.chmod("tree", 0o1777)
    os.makedirs("to be a file/inside")
    write("to be a directory", "x")
    write(b"no text \xff\xfe\n name", "x")
    for name in ("plain", "tree/other", "tree/deep/er", "tree"):
        os.utime(name, ns=(MOMENT, MOMENT))

def change(base):
    os.chdir(base)
    os.unlink("removed later")
    with open("in place", "r+") as file:
        file.seek(50_000)
        file.write("B")
    write("new one", "new")
    os.rename("new one", "replaced")
    with open("sparse", "r+b") as file:
        file.seek(1 << 20)
        file.write(b"middle")
    os.unlink("symlink")
    os.symlink("elsewhere", "symlink")
    write("link one", " more", "a")
    os.unlink("fifo")
    os.unlink("socket")
    os.chmod("program", 0o600)
    os.chown("owned", 5, 6)
    os.removexattr("attributed", "user.colour")
    os.setxattr("plain", "user.new", b"1")
    shutil.rmtree("tree")
    os.mkdir("tree")
    write("tree/only", "only")
    shutil.rmtree("to be a file")
    write("to be a file", "now a file")
    os.unlink("to be a directory")
    os.mkdir("to be a directory")
    write("to be a directory/inside", "x")
    os.utime("empty", ns=(MOMENT, MOMENT + 1))

def again(base):
    os.chdir(base)
    shutil.rmtree("to be a directory")
    # A directory that was captured is copied by whoever moves it, as between file systems.
    shutil.move("tree", "moved")
    os.makedirs("tree/deep")
    write("removed later", "back")
    os.unlink("replaced")
    os.link("plain", "link to plain")
    os.truncate("sparse", 4096)
    os.mkfifo("fifo", 0o640)

def listed(path, groups):
    state = os.lstat(path)
    kind = stat.S_IFMT(state.st_mode)
    words = [repr(path), oct(state.st_mode), f"{state.st_uid}:{state.st_gid}", str(state.st_mtime_ns)]
    if kind == stat.S_IFREG:
        with open(path, "rb") as file:
            words.append(hashlib.sha256(file.read()).hexdigest())
        first = groups.setdefault((state.st_dev, state.st_ino), path)
        words += [str(state.st_size), f"links={state.st_nlink}", f"as={first!r}"]
        words.append("sparse" if state.st_blocks * 512 * 2 < state.st_size else "full")
    elif kind == stat.S_IFLNK:
        words.append(repr(os.readlink(path)))
    if kind != stat.S_IFLNK:
        words += [f"{name}={os.getxattr(path, name)!r}" for name in sorted(os.listxattr(path))]
    print(*words)

def manifest():
    groups = {}
    for place in PLACES + ("/etc", "/usr/local"):
        for top, directories, files in os.walk(os.fsencode(place)):
            directories.sort()
            listed(top, groups)
            for name in sorted(files + [one for one in directories if os.path.islink(os.path.join(top, one))]):
                listed(os.path.join(top, name), groups)

word = sys.argv[1]
if word == "list":
    manifest()
else:
    for place in PLACES:
        {"make": make, "change": change, "again": again}[word](place)
    # Files that were there before anybody wrote.
    if word == "make":
        os.chmod("/etc/passwd", 0o600)
    elif word == "change":
        write("/etc/hosts", "127.0.0.9 elsewhere\n", "a")
        os.unlink("/etc/group")
        os.chown("/etc/passwd", 9, 9)
    else:
        write("/etc/group", "again")

# What of /proc outside of processes' own directories opens for writing, and is not the null device in its place.
found = []
for here, directories, files in os.walk("/proc"):
    if here == "/proc":
        directories[:] = [name for name in directories if not name.isdigit() and name not in ("self", "thread-self")]
    for name in files:
        path = os.path.join(here, name)
        # Links lead to processes' own directories.
        if os.path.islink(path):
            continue
        if error_of(lambda: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))) == "done":
            if os.stat(path).st_rdev != os.makedev(1, 3):
                found.append(path)
print(found)

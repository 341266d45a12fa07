# Its own group looks like the root, none is mounted, and no file of one is in sight.
with open("/proc/self/cgroup") as file:
    lines = file.read().splitlines()
for line in lines:
    number, controllers, path = line.split(":", 2)
    assert path == "/" or controllers in ("blkio", "devices", "freezer", "cpuset", "cpuacct", "name=systemd", "misc",
                                          "net_cls", "net_prio", "perf_event", "hugetlb", "rdma"), line
    assert "sbx" not in path and "warren" not in path, line
with open("/proc/self/mountinfo") as file:
    assert "cgroup" not in file.read()
for here, directories, files in os.walk("/", followlinks=False):
    directories[:] = [] if here.startswith(("/proc", "/usr")) else directories
    assert not {"cgroup.procs", "release_agent", "memory.limit_in_bytes", "pids.max"} & set(files), here
for path in ("/sys/fs/cgroup", "/sys/fs/cgroup/memory/release_agent"):
    assert not os.path.exists(path), path
answer = error_of(lambda: os.makedirs("/sys/fs/cgroup/x"))
with open("/proc/self/mountinfo") as file:
    assert "cgroup" not in file.read()
print("ok")

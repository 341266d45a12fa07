import stat
for path in ("/proc/1/exe", "/proc/1/mem", "/proc/1/root", "/proc/1/cwd", "/proc/1/map_files", "/proc/1/environ", "/proc/1/auxv"):
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_PATH):
        if path.endswith("environ") and flags & os.O_PATH:
            continue
        answer = error_of(lambda: os.close(os.open(path, flags)))
        names_only = flags & os.O_PATH and path in ("/proc/1/mem", "/proc/1/auxv", "/proc/1/map_files")
        assert answer in ("EACCES", "EPERM", "EISDIR") or names_only, (path, flags, answer)
# A script whose interpreter is the agent: the old way to have it run under the attacker's eyes.
with open("/tmp/script", "w") as file:
    file.write("#!/proc/1/exe\n")
os.chmod("/tmp/script", 0o755)
assert error_of(lambda: os.execv("/tmp/script", ["/tmp/script"])) in ("EACCES", "EPERM", "ENOENT")
# Tracing the agent is refused as well.
assert call(101, 16, 1, 0, 0) == "EPERM"
assert call(310, 1, 0, 0, 0, 0, 0) in ("EPERM", 0)
print("ok")

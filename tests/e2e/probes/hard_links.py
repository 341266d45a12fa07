# A link to a file of the template is a copy of it; across mounts there is none.
os.link("/usr/bin/env", "/usr/bin/linked")
assert os.stat("/usr/bin/linked").st_nlink == 2
with open("/usr/bin/linked", "ab") as file:
    file.write(b"tail")
assert os.stat("/usr/bin/env").st_size == os.stat("/usr/bin/linked").st_size, "one file inside"
os.link("/etc/passwd", "/etc/linked")
assert error_of(lambda: os.link("/work/file", "/tmp/file")) == "EXDEV"
assert error_of(lambda: os.link("/etc/passwd", "/work/passwd")) == "EXDEV"
assert error_of(lambda: os.link("/usr/bin/env", "/tmp/env")) == "EXDEV"
assert error_of(lambda: os.link("/proc/self/exe", "/tmp/exe")) in ("EXDEV", "EPERM")
descriptor = os.open("/work/file", os.O_RDONLY)
answer = call(265, descriptor, b"", -100, b"/tmp/by-descriptor", 0x1000)
assert answer in ("EXDEV", "ENOENT", "EPERM"), answer
assert error_of(lambda: os.rename("/work/file", "/tmp/file")) == "EXDEV"
print("ok")

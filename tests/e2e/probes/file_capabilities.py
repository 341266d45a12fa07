import shutil, struct
shutil.copy("/usr/bin/python3", "/tmp/capable")
# Version 3, effective, all capabilities, of root id 0; and version 2.
everything = 0xFFFFFFFF
for value in (struct.pack("<IIIIII", 0x03000001, everything, 0, everything, 0, 0), struct.pack("<IIIII", 0x02000001, everything, 0, everything, 0)):
    answer = error_of(lambda: os.setxattr("/tmp/capable", "security.capability", value))
    assert answer in ("EPERM", "EACCES", "ENOTSUP", "done"), answer
    for number in (0, 12, 21):
        effective = int([l for l in os.popen("/tmp/capable -c \"print(open('/proc/self/status').read())\"") if l.startswith("CapEff")][0].split()[1], 16)
    mine = int([l for l in open("/proc/self/status") if l.startswith("CapEff")][0].split()[1], 16)
    assert effective == mine, (hex(effective), hex(mine))
for name in ("trusted.overlay.opaque", "trusted.overlay.redirect", "security.ima"):
    assert error_of(lambda: os.setxattr("/tmp/capable", name, b"y")) in ("EPERM", "ENOTSUP"), name
# What is held is the short list and nothing else, and nothing can add to it.
status = dict(line.split(":\t") for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
KEPT = 0b11111011
kept = KEPT if os.getuid() == 0 else 0
assert int(status["CapEff"], 16) == kept and int(status["CapPrm"], 16) == kept, status["CapEff"]
assert int(status["CapBnd"], 16) == KEPT and int(status["CapInh"], 16) == 0 and int(status["CapAmb"], 16) == 0, status
assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", status
print("ok")

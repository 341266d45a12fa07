# Looks for processes that run a program of the host's, and tries to write to it, until told to stop.
import time
written, seen, deadline = [], set(), time.monotonic() + 30
while not os.path.exists("/tmp/stop") and time.monotonic() < deadline:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            target = os.readlink(f"/proc/{pid}/exe")
        except OSError:
            continue
        if "agent" not in target:
            continue
        seen.add(target)
        for flags in (os.O_WRONLY, os.O_RDWR | os.O_TRUNC):
            if error_of(lambda: os.close(os.open(f"/proc/{pid}/exe", flags))) == "done":
                written.append(pid)
with open("/tmp/report.new", "w") as file:
    file.write(f"written: {written} seen: {sorted(seen)}\n")
os.rename("/tmp/report.new", "/tmp/report")

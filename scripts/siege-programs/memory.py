# Takes all memory there is and touches it, again and again; a child does it, so that its end is not
# ours.
import mmap, os

while True:
    if os.fork() == 0:
        held = []
        while True:
            held.append(mmap.mmap(-1, 16 << 20))
            for at in range(0, 16 << 20, 4096):
                held[-1][at] = 1
    try:
        os.wait()
    except OSError:
        pass

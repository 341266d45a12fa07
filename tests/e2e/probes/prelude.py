# Vocabulary of the probes: raw system calls, and the name of what they were refused with.
import ctypes, errno, os, sys

_libc = ctypes.CDLL(None, use_errno=True)

def call(number, *args):
    """Makes a system call. Answers its result, or the name of its error."""
    ctypes.set_errno(0)
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = _libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        return errno.errorcode.get(ctypes.get_errno(), str(ctypes.get_errno()))
    return result

def error_of(action):
    """The name of the error an action raises, or "done"."""
    try:
        action()
        return "done"
    except OSError as failure:
        return errno.errorcode.get(failure.errno, str(failure.errno))

def write_to(path, text="x"):
    def write():
        with open(path, "w") as file:
            file.write(text)
    return error_of(write)

def in_child(action):
    """Runs an action in a child: its wait status, so that a signal shows."""
    child = os.fork()
    if child == 0:
        try:
            action()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1]

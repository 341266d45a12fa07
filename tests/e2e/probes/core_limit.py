# The limit stays what it was, whoever is told that it changed.
import resource
before = resource.getrlimit(resource.RLIMIT_CORE)
assert before == (1, 1), before
error_of(lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
class Limit(ctypes.Structure):
    _fields_ = [("soft", ctypes.c_uint64), ("hard", ctypes.c_uint64)]
zero = Limit(0, 0)
call(160, 4, ctypes.byref(zero))
call(302, 0, 4, ctypes.byref(zero), 0)
assert resource.getrlimit(resource.RLIMIT_CORE) == before
# Nor does a process of the same user change it for another.
assert resource.prlimit(os.getppid() or 1, resource.RLIMIT_NOFILE) if os.getppid() > 1 else True
print("ok")

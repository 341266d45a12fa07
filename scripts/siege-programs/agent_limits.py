# Takes the agent's descriptors, its priority and its processors away, by every number under which
# it can be named, over and over.
import os, resource, time

while True:
    for name in os.listdir("/proc/1/task"):
        number = int(name)
        for attempt in (
            lambda: resource.prlimit(number, resource.RLIMIT_NOFILE, (4, 4)),
            lambda: resource.prlimit(number, resource.RLIMIT_AS, (4096, 4096)),
            lambda: os.setpriority(os.PRIO_PROCESS, number, 19),
            lambda: os.sched_setscheduler(number, os.SCHED_IDLE, os.sched_param(0)),
            lambda: os.sched_setaffinity(number, {0}),
            lambda: os.kill(number, 19),
        ):
            try:
                attempt()
            except OSError:
                pass
    time.sleep(0.02)

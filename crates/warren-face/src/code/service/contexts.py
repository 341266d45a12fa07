"""Contexts: each has a language, a directory and a kernel, and runs one execution at a time."""

import asyncio
import os
import re
import uuid

from . import results
from .http11 import Refusal
from .jupyter import JupyterKernel, installed
from .kernels import Ended, Unavailable, language_of
from .piped import BashKernel, JavaKernel, NodeKernel

# How often a client that waits is told that we are there.
KEEPALIVE = 5.0

# How often a cell is interrupted that does not end by it.
INSIST = 1.0

# An interrupt may be lost: one that somebody asks for is sent so many times. A cell that outlives them means to go on.
TIMES = 3

OWN = {"javascript": NodeKernel, "typescript": NodeKernel, "bash": BashKernel, "java": JavaKernel}
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def kernel_for(language, cwd):
    return OWN.get(language, JupyterKernel)(language, cwd)


def is_available(language):
    if language in OWN:
        return OWN[language].program() is not None
    return installed(language) is not None


class Execution:
    """What becomes of one cell: events for whoever asked for it."""

    def __init__(self, code, env, patience=None):
        self.code = code
        self.env = env
        # Seconds that it may run.
        self.patience = patience
        self.timed_out = False
        self.is_abandoned = False
        # Somebody wants it to be interrupted.
        self.unwanted = asyncio.Event()
        self._events = asyncio.Queue()
        self._ended = False

    def emit(self, event):
        self._events.put_nowait(results.line(event))

    def end(self):
        if not self._ended:
            self._ended = True
            event = {"type": "end_of_execution"}
            if self.timed_out:
                event["timed_out"] = True
            self.emit(event)
            self._events.put_nowait(None)

    def abandon(self):
        """Nobody listens any more."""
        self.is_abandoned = True
        self.unwanted.set()

    def must_end(self):
        return self.is_abandoned or self.timed_out

    async def next(self):
        """The next line for the client; None after the last."""
        try:
            return await asyncio.wait_for(self._events.get(), KEEPALIVE)
        except asyncio.TimeoutError:
            return results.line({"type": "keepalive"})


class Context:
    def __init__(self, language, cwd):
        self.id = str(uuid.uuid4())
        self.language = language
        self.cwd = cwd
        self.kernel = kernel_for(language, cwd)
        self.is_gone = False
        self._turn = asyncio.Lock()
        self._starting = asyncio.Lock()
        self._tasks = set()
        self._current = None

    def described(self):
        return {"id": self.id, "language": self.language, "cwd": self.cwd}

    def run(self, execution):
        """Runs it when its turn comes. What it does is told to the execution, and goes on if nobody listens."""
        task = asyncio.ensure_future(self._run(execution))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, execution):
        try:
            async with self._turn:
                if not execution.is_abandoned:
                    self._current = execution
                    await self._run_now(execution)
        finally:
            if self._current is execution:
                self._current = None
            execution.end()

    async def _run_now(self, execution):
        insisting = None
        try:
            await self.ready()
            insisting = asyncio.ensure_future(self._insist(execution))
            await self.kernel.run(execution.code, execution.env, execution.emit)
        except Unavailable as error:
            execution.emit(results.error("Unavailable", str(error)))
        except Exception as error:
            if not isinstance(error, Ended) and await self.kernel.is_alive():
                execution.emit(results.error(type(error).__name__, str(error)))
            else:
                # One that was stopped meanwhile fails in many ways.
                await self.kernel.stop()
                execution.emit(results.error("KernelEnded", "the kernel has ended; its state is lost, and the next execution starts anew"))
        finally:
            if insisting is not None:
                insisting.cancel()
                await asyncio.wait({insisting})

    async def _insist(self, execution):
        """Interrupts the cell: until it ends, when its client is gone or its time is over, and a few times when somebody asks for it."""
        clock = asyncio.get_running_loop().time
        end = None if execution.patience is None else clock() + execution.patience
        while True:
            try:
                await asyncio.wait_for(execution.unwanted.wait(), None if end is None else max(end - clock(), 0))
            except asyncio.TimeoutError:
                execution.timed_out = True
            execution.unwanted.clear()
            times = 0
            while times < TIMES or execution.must_end():
                await self.kernel.interrupt()
                await asyncio.sleep(INSIST)
                times += 1

    def interrupt(self):
        """What runs is interrupted; what waits for its turn is not."""
        if self._current is not None:
            self._current.unwanted.set()

    async def ready(self):
        """Starts the kernel if there is none."""
        async with self._starting:
            if self.is_gone:
                raise Ended("the context was removed")
            if not await self.kernel.is_alive():
                await self.kernel.stop()
                await self.kernel.start()

    async def restart(self):
        async with self._starting:
            await self.kernel.stop()
            # What waits for its turn was meant for the old state.
            for task in list(self._tasks):
                task.cancel()
            if self._tasks:
                await asyncio.wait(set(self._tasks))
            self.kernel = kernel_for(self.language, self.cwd)
            await self.kernel.start()

    async def remove(self):
        self.is_gone = True
        async with self._starting:
            await self.kernel.stop()
            for task in list(self._tasks):
                task.cancel()


class Contexts:
    """All there are. A language has a default one, which is made when it is first needed."""

    def __init__(self):
        self._all = {}
        self._defaults = {}

    def begin(self):
        """Those that exist from the start. Python's kernel is made ready before anybody asks for it."""
        for language in ("python", "javascript"):
            if is_available(language):
                context = self.default(language)
                if language == "python":
                    task = asyncio.ensure_future(context.ready())
                    # Whoever runs something is told of it.
                    task.add_done_callback(lambda done: done.cancelled() or done.exception())

    def listed(self):
        return [context.described() for context in self._all.values()]

    def default(self, language):
        context = self._all.get(self._defaults.get(language))
        if context is None:
            context = self.create(language, None)
            self._defaults[language] = context.id
        return context

    def create(self, language, cwd):
        language = language_of(language)
        if not is_available(language):
            raise Refusal(400, str(Unavailable(language)))
        if cwd is not None and not os.path.isdir(cwd):
            raise Refusal(400, f"{cwd} is not a directory", "cwd")
        context = Context(language, cwd or _home())
        self._all[context.id] = context
        return context

    def find(self, name):
        """By id, or by a language's name for its default."""
        context = self._all.get(name)
        if context is None:
            context = self._all.get(self._defaults.get(name))
        if context is None:
            raise Refusal(404, f"Context {name} not found")
        return context

    async def remove(self, name):
        context = self.find(name)
        del self._all[context.id]
        await context.remove()


def _home():
    home = os.environ.get("HOME") or "/"
    return home if os.path.isdir(home) else "/"


def checked_env(env):
    """Variables for one execution."""
    if env is None:
        return {}
    if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
        raise Refusal(400, "not an object of texts", "env_vars")
    for name, value in env.items():
        if not VARIABLE.fullmatch(name) or "\0" in value:
            raise Refusal(400, f"{name!r} cannot be a variable", "env_vars")
    return env

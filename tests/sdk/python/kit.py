"""What the tests of the E2B protocol share. The packages are the published ones; only the environment says where the server is."""

import inspect
import time

import e2b
import e2b_code_interpreter


async def done(value):
    """The same test serves both halves of the package: what must be awaited is."""
    return await value if inspect.isawaitable(value) else value


async def until(what, limit=30):
    """Waits until a question is answered with something true."""
    end = time.monotonic() + limit
    while True:
        answer = await done(what())
        if answer:
            return answer
        assert time.monotonic() < end, f"not within {limit} s: {what}"
        time.sleep(0.05)


class Kit:
    """One half of the package: the classes with which a test makes things."""

    def __init__(self, kind):
        self.kind = kind
        self.is_async = kind == "async"
        self.Sandbox = e2b.AsyncSandbox if self.is_async else e2b.Sandbox
        self.Coder = e2b_code_interpreter.AsyncSandbox if self.is_async else e2b_code_interpreter.Sandbox
        self.made = []

    async def make(self, of=None, **options):
        options.setdefault("timeout", 300)
        sandbox = await done((of or self.Sandbox).create(**options))
        self.made.append(sandbox)
        return sandbox

    async def kill_all(self):
        for sandbox in self.made:
            await done(sandbox.kill())

"""The service that runs code in a sandbox: contexts are kept, executions are streams of JSON lines."""

import asyncio
import os
import signal
import socket
import sys

from . import http11
from .http11 import Answer, Lines, Refusal

# For kernels: a file that the debugger cannot check is no concern of a cell, and packages may be installed beside the distribution's.
ENVIRONMENT = {"PYDEVD_DISABLE_FILE_VALIDATION": "1", "PIP_BREAK_SYSTEM_PACKAGES": "1"}


def main(arguments):
    """Takes the port to listen on. With 0 the system chooses one, and it is printed."""
    try:
        listener = socket.create_server(("127.0.0.1", int(arguments[0])), backlog=512)
    except OSError as error:
        # Whoever has the port is the service.
        sys.exit(f"cannot listen on port {arguments[0]}: {error}")
    os.environ.update(ENVIRONMENT)
    if not os.path.exists("/etc/matplotlibrc"):
        # Debian's matplotlib insists on a file that only its package brings; an empty one will do.
        os.environ.setdefault("MATPLOTLIBRC", os.devnull)
    # Kernels inherit what is ignored here, and could then not be interrupted.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print(listener.getsockname()[1], flush=True)
    asyncio.run(_serve(listener))


async def _serve(listener):
    # What this needs takes a while to load. Who connects meanwhile waits.
    from .contexts import Contexts

    contexts = Contexts()
    service = Service(contexts)

    async def connected(reader, writer):
        await http11.Connection(service.answer, reader, writer).serve()

    server = await asyncio.start_server(connected, sock=listener, limit=http11.MOST_HEAD)
    contexts.begin()
    async with server:
        await server.serve_forever()


class Service:
    def __init__(self, contexts):
        self.contexts = contexts

    async def answer(self, request):
        parts = request.path.strip("/").split("/")
        if parts == ["health"]:
            return Answer("OK")
        if parts == ["execute"]:
            _only(request, "POST")
            return self._execute(request.json())
        if parts == ["contexts"]:
            _only(request, "GET", "POST")
            return self._create(request.json()) if request.method == "POST" else Answer(self.contexts.listed())
        if len(parts) == 2 and parts[0] == "contexts":
            _only(request, "DELETE")
            await self.contexts.remove(parts[1])
            return Answer({})
        if len(parts) == 3 and parts[0] == "contexts" and parts[2] in ("restart", "interrupt"):
            _only(request, "POST")
            return await self._act(self.contexts.find(parts[1]), parts[2])
        raise Refusal(404, f"there is no {request.path}")

    def _execute(self, fields):
        from .contexts import Execution, checked_env, language_of

        code, name, language = fields.get("code"), _text(fields, "context_id"), _text(fields, "language")
        if not isinstance(code, str):
            raise Refusal(400, "not a text", "code")
        if name is not None and language is not None:
            raise Refusal(400, "Only one of context_id or language can be provided")
        patience = fields.get("timeout_s")
        if patience is not None and not (isinstance(patience, (int, float)) and patience > 0):
            raise Refusal(400, "not a number of seconds", "timeout_s")
        env = checked_env(fields.get("env_vars"))
        context = self.contexts.find(name) if name else self.contexts.default(language_of(language))
        execution = Execution(code, env, patience)
        context.run(execution)
        return Lines(execution)

    def _create(self, fields):
        context = self.contexts.create(_text(fields, "language"), _text(fields, "cwd"))
        return Answer(context.described())

    async def _act(self, context, what):
        if what == "restart":
            await context.restart()
        else:
            context.interrupt()
        return Answer({})


def _only(request, *methods):
    if request.method not in methods:
        raise Refusal(405, f"{request.path} does not have {request.method}")


def _text(fields, name):
    """A text that may be absent, null or empty."""
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise Refusal(400, "not a text", name)
    return value or None

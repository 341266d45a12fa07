"""Kernels that speak the Jupyter protocol: Python, and whatever else is installed."""

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from queue import Empty

from . import results
from .assets import asset
from .kernels import Ended, Unavailable

try:
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
except ImportError:
    KernelSpecManager = AsyncKernelManager = None

# How long a kernel may take to start, and how often one that says nothing is looked after.
START = 60
LOOK = 1.0

# Moments without a word after which a cell has ended whose end was replied but not told.
PATIENCE = 5

# How languages set their environment: what puts a dictionary in force and leaves the previous values for the way back.
SET_ENV = {
    "python": (
        "import os as _warren_os, json as _warren_json\n"
        "_warren_new = _warren_json.loads({fields!r})\n"
        "_warren_env = {{_n: _warren_os.environ.get(_n) for _n in _warren_new}}\n"
        "for _n, _v in _warren_new.items(): _warren_os.environ[_n] = _v\n"
        "del _n, _v, _warren_new"
    ),
    "r": ".warren_env <- Sys.getenv(c({names}), unset=NA, names=TRUE); Sys.setenv({pairs})",
}
RESTORE_ENV = {
    "python": (
        "for _n, _v in _warren_env.items():\n"
        "    _warren_os.environ.pop(_n, None) if _v is None else _warren_os.environ.__setitem__(_n, _v)\n"
        "del _n, _v, _warren_env, _warren_os, _warren_json"
    ),
    "r": (
        "for (n in names(.warren_env)) if (is.na(.warren_env[[n]])) Sys.unsetenv(n) "
        "else do.call(Sys.setenv, setNames(list(.warren_env[[n]]), n)); rm(.warren_env, n)"
    ),
}


def installed(language):
    """The name of an installed kernel for a language, or None."""
    if KernelSpecManager is None:
        return None
    specs = KernelSpecManager().get_all_specs()
    if language == "python":
        return "python3" if "python3" in specs else None
    for name, found in specs.items():
        if found["spec"].get("language", "").lower() == language:
            return name
    return None


class JupyterKernel:
    def __init__(self, language, cwd):
        self.language = language
        self.cwd = cwd
        self.manager = self.client = self.directory = None
        # Whether a cell of a client runs. What the service does by itself is not interrupted.
        self.running = False

    async def start(self):
        name = installed(self.language)
        if name is None:
            raise Unavailable(self.language)
        self.directory = tempfile.mkdtemp(prefix="warren-code-")
        connection = os.path.join(self.directory, "kernel.json")
        self.manager = AsyncKernelManager(kernel_name=name, transport="ipc", connection_file=connection)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        arguments = ["--HistoryManager.enabled=False"] if self.language == "python" else []
        try:
            await self.manager.start_kernel(cwd=self.cwd, extra_arguments=arguments, **quiet)
            self.client = self.manager.client()
            self.client.start_channels()
            # A publisher drops what its readers are slow to take. Nothing is to be lost: the memory is the sandbox's own.
            self.client.iopub_channel.socket.set_hwm(0)
            await self.client.wait_for_ready(timeout=START)
            if self.language == "python":
                await self._execute(asset("figures.py"), lambda _: None, silent=True)
        except RuntimeError as error:
            await self.stop()
            raise Ended(f"the kernel did not start: {error}") from error

    async def run(self, code, env, emit):
        """Runs a cell. Its environment is in force for this cell alone."""
        if env:
            if self.language not in SET_ENV:
                raise Unavailable(self.language, "variables for one execution")
            await self._execute(_filled(SET_ENV[self.language], env), lambda _: None, silent=True)
        try:
            self.running = True
            await self._execute(code, emit)
        finally:
            self.running = False
            if env and self.client is not None:
                await self._restore()

    async def _restore(self):
        # An interrupt that was meant for the cell may arrive late.
        for _ in range(3):
            if await self._execute(RESTORE_ENV[self.language], lambda _: None, silent=True) == "ok":
                return

    async def _execute(self, code, emit, silent=False):
        """Says how it ended, in the protocol's words."""
        asked = self.client.execute(code, silent=silent, store_history=not silent, allow_stdin=False, stop_on_error=False)
        told, silence, reply = set(), 0, None
        while True:
            message = await self._get(self.client.get_iopub_msg)
            if message is None:
                reply = reply or await self._reply_to(asked)
                silence += reply is not None
                # What should have said the end is lost.
                if silence > PATIENCE:
                    break
                continue
            if message["parent_header"].get("msg_id") != asked:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                break
            silence = 0
            event = _event(kind, content, message["header"].get("date"))
            if event is not None:
                told.add(kind)
                emit(event)
        for _ in range(PATIENCE):
            reply = reply or await self._reply_to(asked)
        # One that is interrupted in the midst of its reply gives none.
        content = reply["content"] if reply else {"status": "aborted"}
        if content["status"] == "error" and "error" not in told and not silent:
            emit(results.error(content.get("ename", ""), content.get("evalue", ""), "\n".join(content.get("traceback", []))))
        return content["status"]

    async def _reply_to(self, asked):
        reply = await self._get(self.client.get_shell_msg)
        return reply if reply is not None and reply["parent_header"].get("msg_id") == asked else None

    async def _get(self, get):
        """The next message; None if there is none for a moment."""
        try:
            return await get(timeout=LOOK)
        except Empty:
            if self.client is None:
                raise Ended("the kernel was stopped") from None
            if not await self.manager.is_alive():
                raise Ended("the kernel has ended") from None
            return None

    async def interrupt(self):
        if self.running and self.manager is not None:
            await self.manager.interrupt_kernel()

    async def stop(self):
        manager, client, directory = self.manager, self.client, self.directory
        self.manager = self.client = self.directory = None
        if client is not None:
            client.stop_channels()
        if manager is not None and manager.has_kernel:
            await manager.shutdown_kernel(now=True)
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)

    async def is_alive(self):
        return self.client is not None and await self.manager.is_alive()


def _event(kind, content, date):
    if kind == "stream":
        return results.stream(content["name"], content["text"], date)
    if kind == "execute_input":
        return results.counted(content["execution_count"])
    if kind in ("display_data", "execute_result"):
        return results.result(content["data"], kind == "execute_result")
    if kind == "error":
        return results.error(content["ename"], content["evalue"], "\n".join(content["traceback"]))
    return None


def _filled(template, env):
    quoted = {name: json.dumps(value, ensure_ascii=False) for name, value in env.items()}
    names = ", ".join(json.dumps(name, ensure_ascii=False) for name in env)
    pairs = ", ".join(f"`{name}` = {value}" for name, value in quoted.items())
    return template.format(fields=json.dumps(env), names=names, pairs=pairs)

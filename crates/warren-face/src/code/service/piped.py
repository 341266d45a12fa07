"""Kernels of our own, which run as plain programs: their orders and reports go through two pipes, what cells print through two more."""

import asyncio
import base64
import codecs
import fcntl
import json
import os
import shlex
import shutil
import signal
import struct
import subprocess
import termios

from . import results
from .assets import asset
from .kernels import Ended, Unavailable

PIECE = 64 << 10


class PipedKernel:
    """Subclasses say which program it is, how an order is written and what its reports mean."""

    def __init__(self, language, cwd):
        self.language = language
        self.cwd = cwd
        self.process = None
        self.running = False
        self.count = 0
        self._emit = None

    async def start(self):
        loop = asyncio.get_running_loop()
        orders, self._orders = os.pipe()
        self._reports, reports = os.pipe()
        try:
            self.process = self._spawn(orders, reports)
        except OSError as error:
            for each in (self._orders, self._reports):
                os.close(each)
            raise Unavailable(self.language) from error
        finally:
            os.close(orders)
            os.close(reports)
        self._outputs = {}
        for name, pipe in (("stdout", self.process.stdout), ("stderr", self.process.stderr)):
            os.set_blocking(pipe.fileno(), False)
            self._outputs[name] = (pipe, codecs.getincrementaldecoder("utf-8")("replace"))
            loop.add_reader(pipe.fileno(), self._read, name, PIECE)
        os.set_blocking(self._reports, False)
        self._report, self._rest = asyncio.Queue(), b""
        loop.add_reader(self._reports, self._read_report)
        self.count = 0
        await self._next_report()
        self._drain()

    def _read(self, name, most):
        pipe, decoder = self._outputs[name]
        try:
            piece = os.read(pipe.fileno(), most)
        except BlockingIOError:
            return
        if not piece:
            asyncio.get_running_loop().remove_reader(pipe.fileno())
        text = decoder.decode(piece)
        if text and self._emit is not None:
            self._emit(results.stream(name, text))

    def _read_report(self):
        piece = os.read(self._reports, PIECE)
        if not piece:
            asyncio.get_running_loop().remove_reader(self._reports)
            self._report.put_nowait(None)
            return
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            self._report.put_nowait(line)

    def _drain(self):
        """Takes what was printed before now. What a cell left running may print on without end."""
        for name, (pipe, _) in self._outputs.items():
            waiting = struct.unpack("i", fcntl.ioctl(pipe.fileno(), termios.FIONREAD, b"\0" * 4))[0]
            while waiting > 0:
                self._read(name, min(waiting, PIECE))
                waiting -= PIECE

    async def _next_report(self):
        report = await self._report.get()
        if report is None:
            raise Ended("the kernel has ended")
        return report

    async def run(self, code, env, emit):
        self.count += 1
        emit(results.counted(self.count))
        self._emit, self.running = emit, True
        try:
            await self._order(self._written(code, env))
            # An execution that was interrupted may have been reported more than once.
            while (report := self._read_number(await self._next_report()))[0] != self.count:
                pass
            self._drain()
            self._conclude(report[1], emit)
        finally:
            self._emit, self.running = None, False

    async def _order(self, text):
        # A pipe takes less at once than a cell may have.
        await asyncio.get_running_loop().run_in_executor(None, self._write, text.encode())

    def _write(self, data):
        try:
            while data:
                data = data[os.write(self._orders, data):]
        except BrokenPipeError:
            pass  # The end of the reports says it too.

    async def is_alive(self):
        return self.process is not None and self.process.poll() is None

    async def interrupt(self):
        if self.running and await self.is_alive():
            os.killpg(self.process.pid, signal.SIGINT)

    async def stop(self):
        process, self.process = self.process, None
        if process is None:
            return
        loop = asyncio.get_running_loop()
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        await loop.run_in_executor(None, process.wait)
        # Whoever waits for a report is told that there will be none.
        self._report.put_nowait(None)
        for each in (self._reports, process.stdout.fileno(), process.stderr.fileno()):
            loop.remove_reader(each)
        os.close(self._reports)
        os.close(self._orders)
        process.stdout.close()
        process.stderr.close()

    def _popen(self, arguments, passed, **options):
        return subprocess.Popen(
            arguments, cwd=self.cwd, pass_fds=passed, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
        )


class NodeKernel(PipedKernel):
    @staticmethod
    def program():
        return shutil.which("node") or shutil.which("nodejs")

    def _spawn(self, orders, reports):
        program = self.program()
        if program is None:
            raise FileNotFoundError("node")
        arguments = [program, "--no-warnings", "-e", asset("kernel.js"), str(orders), str(reports), self.language]
        return self._popen(arguments, (orders, reports), stdin=subprocess.DEVNULL)

    def _written(self, code, env):
        return json.dumps({"number": self.count, "code": code, "env": env}) + "\n"

    def _read_number(self, report):
        fields = json.loads(report)
        return fields.get("number"), fields.get("done")

    def _conclude(self, done, emit):
        if "error" in done:
            error = done["error"]
            emit(results.error(error["name"], error["value"], error["traceback"]))
        elif "text" in done:
            bundle = {"text/plain": done["text"]}
            if done.get("json") is not None:
                bundle["application/json"] = json.loads(done["json"])
            emit(results.result(bundle, True))

    async def interrupt(self):
        if self.running and await self.is_alive():
            await self._order(json.dumps({"interrupt": self.count}) + "\n")


class JavaKernel(PipedKernel):
    """The JDK's own shell, in a program that is compiled as it starts."""

    @staticmethod
    def program():
        # A runtime without a compiler cannot run cells.
        return shutil.which("java") if shutil.which("javac") else None

    def _spawn(self, orders, reports):
        program = self.program()
        if program is None:
            raise FileNotFoundError("java")
        # It is read from a file, which need not be anywhere.
        source = os.memfd_create("kernel.java", 0)
        try:
            os.write(source, asset("kernel.java").encode())
            arguments = [
                program, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Dfile.encoding=UTF-8",
                "--add-modules", "jdk.jshell", "--source", "11", f"/proc/self/fd/{source}", str(orders), str(reports),
            ]
            return self._popen(arguments, (source, orders, reports), stdin=subprocess.DEVNULL)
        finally:
            os.close(source)

    def _read(self, name, most):
        # Clients of E2B expect the end of what is printed last apart from it.
        emit = self._emit
        if emit is not None:
            self._emit = lambda event: [emit(part) for part in _ended_apart(event)]
        try:
            super()._read(name, most)
        finally:
            self._emit = emit

    def _written(self, code, env):
        words = [_encoded(code)] + [_encoded(word) for pair in env.items() for word in pair]
        return f"run {self.count} {' '.join(words)}\n"

    def _read_number(self, report):
        number, _, rest = report.decode("ascii", "replace").partition(" ")
        return (int(number) if number.isdecimal() else None), rest

    def _conclude(self, done, emit):
        kind, *words = done.split(" ")
        texts = [_decoded(word) for word in words]
        if kind == "error":
            emit(results.error(*texts))
        elif kind == "result":
            emit(results.result({"text/plain": texts[0]}, True))

    async def interrupt(self):
        if self.running and await self.is_alive():
            await self._order(f"interrupt {self.count}\n")


def _encoded(text):
    return base64.b64encode(text.encode("utf-8", "replace")).decode() or "-"


def _decoded(word):
    return "" if word == "-" else base64.b64decode(word).decode("utf-8", "replace")


def _ended_apart(event):
    text = event["text"]
    if len(text) > 1 and text.endswith("\n"):
        return [{**event, "text": text[:-1]}, {**event, "text": "\n"}]
    return [event]


class BashKernel(PipedKernel):
    """An interactive shell, which gives up a whole cell when it is interrupted, and then takes its next order."""

    @staticmethod
    def program():
        return shutil.which("bash")

    def _spawn(self, orders, reports):
        self._done = reports
        environment = {**os.environ, "PS1": "", "PS2": "", "HISTFILE": ""}
        process = self._popen(
            [self.program() or "bash", "--noprofile", "--norc", "--noediting", "-i"], (reports,), stdin=orders, env=environment
        )
        first = f"set +o history; set +H; unset PS1 PS2 HISTFILE; echo ready >&{reports}\n"
        os.write(self._orders, first.encode())
        return process

    def _written(self, code, env):
        before, after = [], []
        for name, value in env.items():
            kept = f"__warren_{name}"
            before.append(f"[ -n \"${{{name}+x}}\" ] && {kept}=${name}; export {name}={shlex.quote(value)}; ")
            after.append(f"if [ -n \"${{{kept}+x}}\" ]; then export {name}=\"${kept}\"; unset {kept}; else unset {name}; fi; ")
        # It may be interrupted as well, and is then done once more.
        restored = f"if [ -n \"${{__warren_open+x}}\" ]; then {''.join(after)}unset __warren_open; fi; "
        self._end = f"{restored}echo {self.count} $__warren_status >&{self._done}\n"
        begin = f"__warren_open=1; __warren_status=130; {''.join(before)}"
        return f"{begin}\neval {shlex.quote(code)} </dev/null\n__warren_status=$?\n{self._end}"

    def _read_number(self, report):
        number, _, status = report.decode("ascii", "replace").partition(" ")
        return (int(number) if number.isdecimal() else None), status

    def _conclude(self, status, emit):
        if status.strip() != "0":
            emit(results.error("ExitStatus", status.strip()))

    async def interrupt(self):
        await super().interrupt()
        # The shell may have been at the end of the cell, which it then gives up too.
        if self.running:
            await self._order(self._end)

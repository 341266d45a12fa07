"""The browser of a sandbox beside the same two programs on this machine, in the template's own root."""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from conftest import WEB, ask, live, text, tools

ROOT = os.path.join(sys.argv[1], "templates/browser/root")
ROUNDS = int(os.environ.get("BROWSER_ROUNDS", "3"))
TOOLS = "/usr/local/lib/warren-browser/node_modules/@playwright/mcp/cli.js"


@contextlib.contextmanager
def on_the_machine():
    """The two programs, started as the service in a sandbox starts them."""
    home = tempfile.mkdtemp(prefix="warren-measure.", dir="/var/tmp")
    os.chown(home, 1000, 1000)
    enter = f"""mount --bind {ROOT} {ROOT} && mount -o remount,bind,ro {ROOT} && mount --rbind /dev {ROOT}/dev &&
        mount --rbind /proc {ROOT}/proc && mount -t tmpfs tmpfs {ROOT}/tmp && mount --bind {home} {ROOT}/home/user &&
        exec chroot --userspec=1000:1000 {ROOT} sh -c '
        export HOME=/home/user; cd
        chromium-headless-shell --no-sandbox --remote-debugging-port=9222 --user-data-dir=/home/user/.browser \\
            --window-size=1280,720 --disable-gpu --no-first-run about:blank >/dev/null 2>&1 &
        exec node {TOOLS} --host 127.0.0.1 --port 8931 --cdp-endpoint http://127.0.0.1:9222 \\
            --shared-browser-context --output-dir /home/user/out >/dev/null 2>&1'"""
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "sh", "-c", enter]
    program = subprocess.Popen(words, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
        # What it started ends a moment later.
        for port in (9222, 8931):
            until_closed(port)
        shutil.rmtree(home, ignore_errors=True)


def until_open(port):
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.005)


def until_closed(port):
    with contextlib.suppress(OSError):
        while True:
            socket.create_connection(("127.0.0.1", port), 1).close()
            time.sleep(0.005)


async def host():
    began = time.monotonic()
    with on_the_machine():
        until_open(9222)
        until_open(8931)
        ready = time.monotonic() - began
        async with tools("http://localhost:8931/mcp", "legacy") as client:
            return ready, await navigate(client)


async def sandbox():
    began = time.monotonic()
    made = ask("POST", "/v1/sessions", {"client": "test", "type": "playwright_mcp", "sandbox": {"network": {"mode": "public"}}})
    ready = time.monotonic() - began
    try:
        async with tools(made["provision"]["url"], "legacy") as client:
            first = await navigate(client)
        memory = ask("GET", f"/v1/sandboxes/{made['sandbox_id']}/usage")["memory_bytes"] / (1 << 20)
        async with live(made["sandbox_id"]) as view:
            await view.say("take")
            await view.say("navigate", url=f"{WEB}/moving")
            await view.page(lambda page: page["title"] == "Moving")
            until, frames = time.monotonic() + 3, 0
            while time.monotonic() < until:
                await view.frame()
                frames += 1
    finally:
        ask("DELETE", f"/v1/sandboxes/{made['sandbox_id']}")
    return ready, first, memory, frames / 3


async def navigate(client):
    began = time.monotonic()
    opened = await client.call_tool("browser_navigate", {"url": "data:text/html,<title>x</title><h1>x</h1>"})
    assert not opened.is_error, text(opened)
    return time.monotonic() - began


async def main():
    there, here = [], []
    # The files are in memory for both.
    await host()
    for _ in range(ROUNDS):
        there.append(await host())
        here.append(await sandbox())
    middle = lambda rounds, at: statistics.median(one[at] for one in rounds)
    for at, what in enumerate(("ready", "first navigate")):
        own, base = middle(here, at), middle(there, at)
        print(f"{what}: {own:.2f} s in a sandbox, {base:.2f} s on the machine: {own / base:.2f}x")
    print(f"memory at one page: {middle(here, 2):.0f} MiB")
    print(f"live view: {middle(here, 3):.0f} frames per second at 1280x720")


asyncio.run(main())

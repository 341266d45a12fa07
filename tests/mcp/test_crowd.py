"""Many clients at once, strangers, and a server that is killed in the middle of a call."""

import asyncio
import os
import signal
import subprocess
import time

import pytest
from mcp import Client, StdioServerParameters

from conftest import WARREN, connected, noted, text

pytestmark = pytest.mark.anyio

CLIENTS = int(os.environ.get("MCP_CLIENTS", "40"))
CALLS = int(os.environ.get("MCP_CALLS", "25"))


def memory_kib(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(next(line for line in status if line.startswith("VmRSS:")).split()[1])


async def test_a_crowd_is_served_without_an_error_and_memory_stays():
    server = int(os.environ["WARREN_SERVER_PID"])
    async with connected("http", "auto") as client:
        # One sandbox serves only so many calls at once.
        made = [await client.call_tool("sandbox", {"action": "create"}) for _ in range(0, CLIENTS, 8)]
        boxes = [one.structured_content["sandbox_id"] for one in made]

    async def one(number, calls):
        mode, path = "auto" if number % 2 else "legacy", f"/mcp/{boxes[number // 8]}"
        async with connected("http", mode, path=path) as client:
            for call in range(calls):
                read = await client.call_tool("read", {"path": "/etc/hostname"})
                assert not read.is_error, text(read)

    # The first round fills what is kept for the next ones.
    for _ in range(2):
        await asyncio.gather(*(one(number, CALLS) for number in range(CLIENTS)))
    before = memory_kib(server)
    await asyncio.gather(*(one(number, CALLS) for number in range(CLIENTS)))
    assert memory_kib(server) < before + (32 << 10)
    async with connected("http", "auto") as client:
        for box in boxes:
            await client.call_tool("sandbox", {"action": "remove", "sandbox": box})


async def test_a_stranger_finds_nothing():
    async with connected("http", "auto") as client:
        box = (await client.call_tool("sandbox", {"action": "create"})).structured_content["sandbox_id"]
    async with connected("http", "auto", key=os.environ["STRANGERS_KEY"]) as stranger:
        for tool, arguments in [("bash", {"command": "true"}), ("undo", {}), ("sandbox", {"action": "remove"})]:
            refused = await stranger.call_tool(tool, {"sandbox": box, **arguments})
            assert noted(refused, "code") == "sandbox_not_found"
        assert (await stranger.call_tool("sandbox", {"action": "list"})).structured_content["sandboxes"] == []
    async with connected("http", "auto") as client:
        await client.call_tool("sandbox", {"action": "remove", "sandbox": box})


async def test_a_server_that_is_killed_is_found_again_by_the_same_client(tmp_path):
    data = os.environ["WARREN_DATA_DIR"] + "-killed"

    def start():
        words = [WARREN, "serve", "--data-dir", data, "--listen", "127.0.0.1:0"]
        with open(tmp_path / "log", "a") as log:
            server = subprocess.Popen(words, stdout=log, stderr=log)
        return server

    def wait_for(server):
        for _ in range(600):
            env = {name: value for name, value in os.environ.items() if not name.startswith("WARREN")}
            if subprocess.run([WARREN, "--data-dir", data, "health"], env=env, capture_output=True).returncode == 0:
                return
            assert server.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.1)
        raise AssertionError("the server does not answer")

    env = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/root"), "WARREN_DATA_DIR": data}
    server = start()
    try:
        wait_for(server)
        async with Client(StdioServerParameters(command=WARREN, args=["mcp"], env=env)) as client:
            await client.call_tool("sandbox", {"action": "create"})
            wrote = await client.call_tool("write", {"path": "/home/user/a", "content": "kept\n"})
            call = asyncio.create_task(client.call_tool("bash", {"command": "sleep 30"}))
            await asyncio.sleep(1)
            server.send_signal(signal.SIGKILL)
            server.wait()
            with pytest.raises(Exception, match="history"):
                await call
            server = start()
            wait_for(server)
            assert "kept" in text(await client.call_tool("read", {"path": "/home/user/a"}))
            entries = (await client.call_tool("history", {})).structured_content["entries"]
            assert noted(wrote, "entry") in [entry["entry"] for entry in entries]
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


async def test_without_a_server_the_command_is_one_itself():
    data = os.environ["WARREN_DATA_DIR"] + "-alone"
    env = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/root"), "WARREN_DATA_DIR": data}
    for _ in range(2):
        async with Client(StdioServerParameters(command=WARREN, args=["mcp", "--new"], env=env)) as client:
            ran = await client.call_tool("bash", {"command": "echo alone"})
            assert text(ran).startswith("alone"), text(ran)
            tools = (await client.list_tools()).tools
            assert all("sandbox" not in tool.input_schema["properties"] for tool in tools)

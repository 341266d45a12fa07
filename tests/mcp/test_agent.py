"""A scripted agent: it builds a small project over the protocol alone, breaks it, and takes that back."""

import asyncio
import base64
import struct
import zlib

import pytest

from conftest import connected, noted, text

pytestmark = pytest.mark.anyio


async def fresh(client):
    made = await client.call_tool("sandbox", {"action": "create"})
    return made.structured_content["sandbox_id"]


def png(width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\xff\0\0" * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


async def test_a_client_learns_what_there_is(way):
    async with connected(*way) as client:
        assert client.protocol_version == ("2026-07-28" if way[1] == "auto" else "2025-11-25")
        assert "undo" in client.instructions
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools][:3] == ["bash", "python", "read"] and len(tools) == 16
        assert all(tool.annotations.read_only_hint is not None for tool in tools)
        assert len((await client.list_prompts()).prompts) == 3
        assert len((await client.list_resource_templates()).resource_templates) == 3


async def test_a_project_is_built_broken_and_mended(way):
    async with connected(*way) as client:
        box = await fresh(client)

        async def use(tool, **arguments):
            return await client.call_tool(tool, {"sandbox": box, **arguments})

        wrote = await use("write", path="/home/user/app/add.py", content="def add(a, b):\n    return a + b\n")
        assert noted(wrote, "entry") and "takes it back]" in text(wrote)
        await use("write", path="/home/user/app/test.py", content="from add import add\nassert add(1, 2) == 3\nprint('fine')\n")
        check = {"command": "python3 -B test.py", "cwd": "/home/user/app"}
        assert text(await use("bash", **check)).startswith("fine\n")
        await use("checkpoint", name="green")
        broke = await use("edit", path="/home/user/app/add.py", old="a + b", new="a - b")
        assert not broke.is_error, text(broke)
        failed = await use("bash", **check)
        assert noted(failed, "exit_code") == 1 and not failed.is_error
        shown = text(await use("diff", **{"from": "green", "path": "/home/user/app"}))
        assert "-    return a + b" in shown and "+    return a - b" in shown, shown
        gone = await use("bash", command="rm -rf /home/user/app")
        assert (await use("ls", path="/home/user/app")).is_error
        await use("undo", to=str(noted(gone, "entry") - 1))
        assert "a - b" in text(await use("read", path="/home/user/app/add.py"))
        await use("undo", to="green")
        assert text(await use("bash", **check)).startswith("fine\n")
        did = [entry["did"] for entry in (await use("history")).structured_content["entries"]]
        assert any("rm -rf" in line for line in did), did
        await use("sandbox", action="remove")


async def test_what_fails_its_check_leaves_nothing_behind(way):
    async with connected(*way) as client:
        box = await fresh(client)
        tried = {"sandbox": box, "command": "echo new > /home/user/file"}
        dropped = await client.call_tool("try", {**tried, "check": "grep -q old /home/user/file"})
        assert noted(dropped, "kept") is False
        assert (await client.call_tool("read", {"sandbox": box, "path": "/home/user/file"})).is_error
        kept = await client.call_tool("try", {**tried, "check": "grep -q new /home/user/file"})
        assert noted(kept, "kept") is True, text(kept)
        assert "new" in text(await client.call_tool("read", {"sandbox": box, "path": "/home/user/file"}))
        boxes = (await client.call_tool("sandbox", {"action": "list"})).structured_content["sandboxes"]
        assert [one["sandbox_id"] for one in boxes].count(box) == 1
        await client.call_tool("sandbox", {"action": "remove", "sandbox": box})


async def test_a_long_command_becomes_a_process_with_progress(way):
    async with connected(*way) as client:
        box = await fresh(client)
        told = []

        async def progress(done, total, message):
            told.append((done, message))

        command = "for i in 1 2 3 4 5 6 7 8 9; do echo step $i; sleep 1; done"
        begun = await client.call_tool(
            "bash", {"sandbox": box, "command": command, "wait_ms": 6500}, progress_callback=progress
        )
        assert told and "step" in told[0][1], told
        assert "runs on" in text(begun) and "step 1" in text(begun)
        wait = {"action": "wait", "id": noted(begun, "process"), "since": noted(begun, "position")}
        ended = await client.call_tool("process", {"sandbox": box, **wait})
        assert "step 9" in text(ended) and "step 1\n" not in text(ended) and noted(ended, "exit_code") == 0
        await client.call_tool("sandbox", {"action": "remove", "sandbox": box})


async def test_a_call_that_is_given_up_ends_its_command(way):
    if way == ("http", "legacy"):
        pytest.skip("such a client says so in a message of its own, and a server without sessions cannot tell to which call")
    async with connected(*way) as client:
        box = await fresh(client)
        call = asyncio.create_task(client.call_tool("bash", {"sandbox": box, "command": "sleep 987"}))
        listed = {"action": "list", "sandbox": box}

        async def running():
            processes = (await client.call_tool("process", listed)).structured_content["processes"]
            return [one for one in processes if one["running"] and "987" in one["command"]]

        while not await running():
            await asyncio.sleep(0.1)
        call.cancel()
        while await running():
            await asyncio.sleep(0.1)
        await client.call_tool("sandbox", {"action": "remove", "sandbox": box})


async def test_pictures_are_seen_and_files_are_resources(way):
    async with connected(*way) as client:
        box = await fresh(client)
        data = base64.b64encode(png(8, 8)).decode()
        code = f"import base64; open('/home/user/red.png', 'wb').write(base64.b64decode('{data}'))"
        await client.call_tool("python", {"sandbox": box, "code": code})
        seen = (await client.call_tool("read", {"sandbox": box, "path": "/home/user/red.png"})).content[0]
        assert (seen.type, seen.mime_type) == ("image", "image/png") and base64.b64decode(seen.data) == png(8, 8)
        blob = (await client.read_resource(f"warren://{box}/files/home/user/red.png")).contents[0]
        assert base64.b64decode(blob.blob) == png(8, 8)
        ran = await client.call_tool("bash", {"sandbox": box, "command": "seq 20000", "max_output_bytes": 1000})
        link = next(block for block in ran.content if block.type == "resource_link")
        whole = (await client.read_resource(link.uri)).contents[0].text
        assert whole.startswith("1\n2\n") and whole.endswith("20000\n")
        await client.call_tool("sandbox", {"action": "remove", "sandbox": box})


async def test_an_address_of_one_sandbox_is_about_it_alone(way):
    async with connected(*way) as client:
        box = await fresh(client)
    async with connected(*way, path=f"/mcp/{box}") as client:
        tools = (await client.list_tools()).tools
        assert all("sandbox" not in tool.input_schema["properties"] for tool in tools)
        assert text(await client.call_tool("bash", {"command": "echo pinned"})).startswith("pinned")
    async with connected(*way) as client:
        await client.call_tool("sandbox", {"action": "remove", "sandbox": box})


async def test_cells_remember_what_earlier_ones_defined(way):
    async with connected(*way) as client:
        box = await fresh(client)
        cell = {"sandbox": box, "context": "default"}
        await client.call_tool("python", {**cell, "code": "x = 20 + 1"})
        assert text(await client.call_tool("python", {**cell, "code": "print(2 * x)"})).startswith("42")
        failed = text(await client.call_tool("python", {**cell, "code": "1 / 0"}))
        assert "ZeroDivisionError" in failed and "\x1b" not in failed
        await client.call_tool("sandbox", {"action": "remove", "sandbox": box})


async def test_what_a_program_writes_cannot_act_on_a_terminal(way):
    async with connected(*way) as client:
        box = await fresh(client)
        ran = await client.call_tool("bash", {"sandbox": box, "command": r"printf '\033]0;owned\007\033[2J\033[31mred\n'"})
        assert text(ran).startswith("red\n") and "\x1b" not in text(ran)
        await client.call_tool("sandbox", {"action": "remove", "sandbox": box})

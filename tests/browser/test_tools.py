"""A browser as agents use it, over the official package."""

import asyncio
import json
import os
import pathlib
import struct

import pytest

from conftest import KEY, URL, WEB, ask, eventually, links, reference, refused, run, session, text, tools

pytestmark = pytest.mark.anyio
READER, STRANGER = os.environ["READERS_KEY"], os.environ["STRANGERS_KEY"]
CONTACTS = pathlib.Path(os.environ["WORLD"]) / "contacts"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_page_is_used_and_looked_at(mode):
    with session() as made:
        assert made["provision"] == {"state": "ready", "url": made["sandbox"]["mcp_url"]}, made["provision"]
        async with tools(made["provision"]["url"], mode) as client:
            assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
            listed = [tool.name for tool in (await client.list_tools()).tools]
            assert len(listed) == 26 and "browser_run_code_unsafe" not in listed
            opened = await client.call_tool("browser_navigate", {"url": WEB})
            assert not opened.is_error and "[#" in text(opened), text(opened)
            # The snapshot is a file in the sandbox, and can be read from here.
            read = await client.read_resource(next(link for link in links(opened) if link.endswith(".yml")))
            assert "Greet" in read.contents[0].text
            shown = await client.call_tool("browser_snapshot", {})
            await client.call_tool("browser_type", {"target": reference(shown, "textbox"), "text": "Ada"})
            await client.call_tool("browser_click", {"target": reference(shown, '"Greet"')})
            assert "Hello Ada" in text(await client.call_tool("browser_snapshot", {}))
            picture = await client.call_tool("browser_take_screenshot", {})
            image = next(block for block in picture.content if block.type == "image")
            assert size_of_png(image) == (1280, 720)
        box = made["sandbox_id"]
        lines = str(ask("GET", f"/v1/sandboxes/{box}/journal"))
        assert "browser_click" in lines and "Ada" not in lines, lines
        frames = eventually(lambda: ask("GET", f"/v1/sandboxes/{box}/browser/frames")["items"])
        jpeg = ask("GET", f"/v1/sandboxes/{box}/browser/frames/{frames[-1]['entry']}", raw=True)
        assert jpeg[:3] == b"\xff\xd8\xff" and len(jpeg) == frames[-1]["bytes"]
        assert refused("GET", f"/v1/sandboxes/{box}/browser/frames/999")[0] == 404


def size_of_png(image):
    import base64

    data = base64.b64decode(image.data)
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and data[-8:-4] == b"IEND", data[:8]
    return struct.unpack(">II", data[16:24])


async def test_dialogs_and_downloads():
    with session() as made:
        async with tools(made["sandbox"]["mcp_url"]) as client:
            await client.call_tool("browser_navigate", {"url": WEB})
            shown = await client.call_tool("browser_snapshot", {})
            asked = await client.call_tool("browser_click", {"target": reference(shown, '"Ask"')})
            assert "Sure?" in text(asked), text(asked)
            await client.call_tool("browser_handle_dialog", {"accept": True})
            assert "Page Title: yes" in text(await client.call_tool("browser_snapshot", {}))
            await client.call_tool("browser_click", {"target": reference(shown, '"Get it"')})
            eventually(lambda: run(made["sandbox_id"], "cat /home/user/Downloads/file.txt")["stdout"] == "downloaded\n")
            file = await client.read_resource(f"warren://{made['sandbox_id']}/files/home/user/Downloads/file.txt")
            assert file.contents[0].text == "downloaded\n"


async def test_it_comes_back_after_crashes():
    with session() as made:
        async with tools(made["sandbox"]["mcp_url"]) as client:
            await client.call_tool("browser_navigate", {"url": WEB})
            await client.call_tool("browser_navigate", {"url": "chrome://crash"})
            await works_again(client)
            # The last word of the pattern is not in the shell's own line.
            run(made["sandbox_id"], "pkill -9 -f 'remote-debugging-[p]ort'")
            await works_again(client)
            run(made["sandbox_id"], "pkill -9 -f 'playwright/[m]cp'")
            await works_again(client)


async def works_again(client):
    """What was cut off may be told to one call, and no more than a few."""
    for _ in range(4):
        opened = await client.call_tool("browser_navigate", {"url": f"{WEB}/second"})
        if not opened.is_error:
            break
    assert "Page Title: Second" in text(opened), text(opened)


async def test_it_is_there_after_a_rollback_in_a_fork_and_after_a_restart():
    with session() as made:
        box = made["sandbox_id"]
        async with tools(made["sandbox"]["mcp_url"]) as client:
            opened = await client.call_tool("browser_navigate", {"url": WEB})
            entry = (opened.meta or {})["warren/entry"]
            run(box, "echo new > /home/user/file")
            async with tools(f"{URL}/mcp/{box}") as other:
                undone = await other.call_tool("undo", {"to": str(entry)})
                assert not undone.is_error, text(undone)
            await works_again(client)
            assert run(box, "cat /home/user/file")["exit_code"] != 0
            fork = ask("POST", f"/v1/sandboxes/{box}/fork", {})["sandboxes"][0]
            async with tools(f"{URL}/mcp/{fork['sandbox_id']}/browser") as other:
                await works_again(other)
            ask("DELETE", f"/v1/sandboxes/{fork['sandbox_id']}")
            ask("POST", f"/v1/sandboxes/{box}/stop")
            ask("POST", f"/v1/sandboxes/{box}/resume")
            await works_again(client)


async def test_the_network_policy_holds_for_pages():
    before = CONTACTS.read_text()
    with session() as made:
        async with tools(made["sandbox"]["mcp_url"]) as client:
            await client.call_tool("browser_navigate", {"url": f"{WEB}/traps"})
            told = await client.call_tool("browser_wait_for", {"time": 1})
            for _ in range(40):
                if "reached:" in text(told := await client.call_tool("browser_snapshot", {})):
                    break
                await asyncio.sleep(0.5)
            assert "Page Title: reached:" in text(told) and "reached: 1" not in text(told), text(told)
            for address in ("http://10.7.7.7/", "http://169.254.169.254/latest/meta-data"):
                # What answers, if anything does, is the refusal of the network.
                shown = text(await client.call_tool("fetch", {"url": address}))
                assert "A page" not in shown and "# none" not in shown, shown
    new = CONTACTS.read_text()[len(before) :].split("\n")
    assert "198.51.100.10 /traps" in new and all(line.startswith("198.51.100.10 ") for line in new if line), new
    with session(network="none") as made:
        async with tools(made["sandbox"]["mcp_url"]) as client:
            assert (await client.call_tool("browser_navigate", {"url": WEB})).is_error


async def test_ten_at_once_within_their_limits():
    async def one():
        made = await asyncio.to_thread(make, memory_mib=768, pids=256)
        try:
            async with tools(made["sandbox"]["mcp_url"]) as client:
                for path in ("", "/second"):
                    opened = await client.call_tool("browser_navigate", {"url": WEB + path})
                    assert not opened.is_error, text(opened)
            usage = await asyncio.to_thread(ask, "GET", f"/v1/sandboxes/{made['sandbox_id']}/usage")
            assert usage["memory_bytes"] < 768 << 20 and usage["oom_kills"] == 0, usage
        finally:
            await asyncio.to_thread(ask, "DELETE", f"/v1/sandboxes/{made['sandbox_id']}")

    await asyncio.gather(*(one() for _ in range(10)))


def make(kind="playwright_mcp", **sandbox):
    wanted = {"network": {"mode": "public"}, **sandbox}
    return ask("POST", "/v1/sessions", {"client": "test", "type": kind, "sandbox": wanted})


async def test_research_reads_pages_and_has_no_shell():
    with session("research") as made:
        url = made["sandbox"]["mcp_url"]
        assert url.endswith("/browser?tools=research")
        async with tools(url) as client:
            listed = {tool.name for tool in (await client.list_tools()).tools}
            assert {"fetch", "read"} < listed and not {"browser_click", "browser_type", "browser_evaluate"} & listed
            page = await client.call_tool("fetch", {"url": WEB, "max_chars": 200})
            assert text(page).startswith(f"# Start\n{WEB}/\n\nA page"), text(page)
            assert "read(from=200) goes on" in text(page)
            assert "A sentence" in text(await client.call_tool("read", {"from": 200, "max_chars": 100}))
            for wrong in ({"url": "file:///etc/passwd"}, {"url": WEB, "max_chars": -1}, {}):
                assert (await client.call_tool("fetch", wrong)).is_error, wrong
        async with tools(f"{URL}/mcp/{made['sandbox_id']}") as client:
            listed = {tool.name for tool in (await client.list_tools()).tools}
            assert "read" in listed and not listed & {"bash", "python", "process", "try"}, listed
        async with tools(f"{URL}/mcp/{made['sandbox_id']}?tools=bash") as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["bash"]


async def test_keys_owners_and_scopes_hold():
    with session() as made:
        path = f"/mcp/{made['sandbox_id']}/browser"
        hello = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert refused("POST", path, hello, STRANGER) == (404, "sandbox_not_found")
        assert refused("POST", path, hello, "wrong") == (401, "unauthorized")
        assert refused("POST", path, hello, READER) == (403, "forbidden")
        assert refused("POST", path + "?tools=nothing", hello)[0] == 422
        for kind in ("", "/frames", "/frames/1"):
            method = "GET" if kind else "POST"
            assert refused(method, f"/v1/sandboxes/{made['sandbox_id']}/browser{kind}", key=STRANGER)[0] == 404
        assert refused("POST", f"/v1/sandboxes/{made['sandbox_id']}/browser", key=READER)[0] == 403
        assert ask("GET", f"/v1/sandboxes/{made['sandbox_id']}/browser/frames", key=READER)["items"] == []


async def test_a_sandbox_without_a_browser_says_so():
    with session(template="host") as made:
        assert made["provision"]["state"] == "failed" and "template build browser" in made["provision"]["reason"]
        assert refused("POST", f"/v1/sandboxes/{made['sandbox_id']}/browser") == (422, "unsupported")
    waiting = ask("POST", "/v1/sessions", {"client": "test", "type": "playwright_mcp", "background": True})
    eventually(lambda: ask("GET", f"/v1/sessions/{waiting['session_id']}")["provision"].get("url"))
    ask("DELETE", f"/v1/sandboxes/{waiting['sandbox_id']}")


LISTING = """
import json, urllib.request
def post(message, **more):
    head = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Host": "localhost:8931", **more}
    answer = urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:8931/mcp", json.dumps({"jsonrpc": "2.0", **message}).encode(), head))
    lines = [line[5:] for line in answer.read().decode().split("\\n") if line.startswith("data:")]
    return answer.headers.get("Mcp-Session-Id"), lines and json.loads(lines[0])["result"]
client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
session = {"Mcp-Session-Id": post({"id": 1, "method": "initialize", "params": client})[0]}
post({"method": "notifications/initialized"}, **session)
print(json.dumps(post({"id": 2, "method": "tools/list"}, **session)[1]["tools"]))
"""


async def test_the_list_of_tools_is_that_of_the_server_inside():
    ours = json.loads((pathlib.Path(__file__).parents[2] / "crates/warren-browser/src/tools.json").read_text())
    with session() as made:
        told = ask("POST", f"/v1/sandboxes/{made['sandbox_id']}/exec", {"command": "python3 -", "stdin": LISTING})
    theirs = json.loads(told["stdout"] or told["stderr"])
    for tool in theirs:
        tool["inputSchema"].pop("$schema", None)
    assert theirs == ours


LIAR = r"""
import socket, sys, threading, time
def serve(port, say):
    server = socket.create_server(("127.0.0.1", port))
    def one(peer):
        try:
            peer.recv(65536)
            say(peer)
        except OSError:
            pass
        peer.close()
    while True:
        threading.Thread(target=one, args=(server.accept()[0],), daemon=True).start()
def endless(peer):
    peer.sendall(b"HTTP/1.1 200 OK\r\nmcp-session-id: x\r\ncontent-type: text/event-stream\r\n\r\n")
    while True:
        peer.sendall(b"data: {\"id\": 0, \"result\": \"" + b"x" * 65536)
def odd(peer):
    peer.sendall(b"HTTP/1.1 200 OK\r\nmcp-session-id: \xff\xfe\r\ncontent-length: 12\r\n\r\n{\"id\": null}")
def pages(peer):
    body = b'[{"type": "page", "id": "../../etc", "url": 7}, {"type": "page", "id": "a", "url": "\\u001b[2J"}, 3]'
    peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
threading.Thread(target=serve, args=(9222, pages), daemon=True).start()
serve(8931, {"endless": endless, "odd": odd, "hang": lambda peer: time.sleep(3600), "close": lambda peer: None}[sys.argv[1]])
"""


@pytest.mark.parametrize("lie", ["endless", "odd", "close"])
async def test_a_sandbox_may_answer_anything(lie):
    with session("terminal") as made:
        box = made["sandbox_id"]
        ask("POST", f"/v1/sandboxes/{box}/exec", {"command": "cat > /tmp/liar.py", "stdin": LIAR})
        ask("POST", f"/v1/sandboxes/{box}/processes", {"command": f"python3 /tmp/liar.py {lie}"})
        eventually(lambda: run(box, "grep -c -e :22E3 -e :2406 /proc/net/tcp")["stdout"].strip() == "2")
        async with tools(f"{URL}/mcp/{box}/browser") as client:
            for name, given in (("browser_snapshot", {}), ("fetch", {"url": WEB}), ("browser_navigate", {"url": WEB})):
                result = await client.call_tool(name, given)
                assert result.is_error and "sandbox_io" in text(result), text(result)
        assert ask("GET", f"/v1/sandboxes/{box}/browser/frames")["items"] == []

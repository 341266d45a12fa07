"""Browsers in sandboxes of a server of ours, as the official package of the protocol and clients of `/v1` use them."""

import asyncio
import contextlib
import json
import os
import time
import urllib.error
import urllib.request

import httpx2
import pytest
import websockets
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

URL = os.environ["WARREN_URL"]
KEY = os.environ["WARREN_API_KEY"]
WEB = "http://198.51.100.10"


@pytest.fixture
def anyio_backend():
    return "asyncio"


def ask(method, path, body=None, key=KEY, raw=False, url=URL):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(url + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=140) as answer:
        read = answer.read()
        return read if raw else json.loads(read or b"null")


def refused(method, path, body=None, key=KEY):
    """The status and the code of a refusal."""
    with pytest.raises(urllib.error.HTTPError) as error:
        ask(method, path, body, key)
    return error.value.code, json.loads(error.value.read())["code"]


@contextlib.contextmanager
def session(kind="playwright_mcp", network="public", **sandbox):
    """A session whose sandbox has a browser."""
    wanted = {"network": {"mode": network}, **sandbox}
    made = ask("POST", "/v1/sessions", {"client": "test", "type": kind, "sandbox": wanted})
    try:
        yield made
    finally:
        with contextlib.suppress(urllib.error.HTTPError):
            ask("DELETE", f"/v1/sandboxes/{made['sandbox_id']}")


@contextlib.asynccontextmanager
async def tools(url, mode="auto", key=KEY):
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=120) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
            yield client


def text(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


def links(result):
    return [str(block.uri) for block in result.content if block.type == "resource_link"]


def reference(snapshot, words):
    """The reference of the element of a snapshot that is described so."""
    line = next(line for line in text(snapshot).split("\n") if words in line)
    return line.split("[ref=")[1].split("]")[0]


def run(box, command):
    return ask("POST", f"/v1/sandboxes/{box}/exec", {"command": command})


@contextlib.asynccontextmanager
async def live(box, key=KEY):
    address = f"{URL.replace('http', 'ws', 1)}/v1/sandboxes/{box}/browser/live"
    async with websockets.connect(address, additional_headers={"Authorization": f"Bearer {key}"}, max_size=1 << 22) as socket:
        yield View(socket)


class View:
    """Somebody who looks on."""

    def __init__(self, socket):
        self.socket = socket
        # The last frame that came while something else was waited for: a page that rests sends no other.
        self.passed = None

    async def say(self, kind, **more):
        await self.socket.send(json.dumps({"type": kind, **more}))

    async def until(self, wanted, patience=40):
        """The first message that is wanted: a notice, or `(entry, jpeg)`."""
        async with asyncio.timeout(patience):
            while True:
                message = await self.socket.recv()
                told = json.loads(message) if isinstance(message, str) else (int.from_bytes(message[:8], "big"), message[8:])
                if wanted(told):
                    return told
                if isinstance(told, tuple):
                    self.passed = told

    async def page(self, wanted, patience=40):
        return await self.until(lambda told: isinstance(told, dict) and told["type"] == "page" and wanted(told), patience)

    async def notice(self, kind):
        return await self.until(lambda told: isinstance(told, dict) and told["type"] == kind)

    async def frame(self):
        if self.passed:
            passed, self.passed = self.passed, None
            return passed
        return await self.until(lambda told: isinstance(told, tuple))


def eventually(check, patience=60):
    until = time.monotonic() + patience
    while not (found := check()):
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.1)
    return found

"""Connections to a server of ours by the official package: over HTTP and by `warren mcp`, as clients of both generations."""

import contextlib
import os

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

URL = os.environ["WARREN_URL"]
KEY = os.environ["WARREN_API_KEY"]
WARREN = os.environ["WARREN"]

WAYS = [(door, mode) for door in ("http", "stdio") for mode in ("auto", "legacy")]


@pytest.fixture
def anyio_backend():
    return "asyncio"


@contextlib.asynccontextmanager
async def connected(door, mode, path="/mcp", key=KEY, **named):
    if door == "stdio":
        words = ["mcp", *(["--sandbox", path.removeprefix("/mcp/")] if path != "/mcp" else [])]
        keep = ("PATH", "HOME", "WARREN_URL", "WARREN_DATA_DIR")
        env = {name: os.environ[name] for name in keep if name in os.environ} | {"WARREN_API_KEY": key}
        async with Client(StdioServerParameters(command=WARREN, args=words, env=env), mode=mode, **named) as client:
            yield client
        return
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=90) as http:
        async with Client(streamable_http_client(URL + path, http_client=http), mode=mode, **named) as client:
            yield client


@pytest.fixture(params=WAYS, ids="-".join)
def way(request):
    return request.param


def text(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


def noted(result, name):
    return (result.meta or {}).get(f"warren/{name}")

"""A page before and after the server was killed: `before` prints the sandbox, `after` reads it."""

import asyncio
import json
import sys

from conftest import WEB, ask, text, tools


async def before():
    made = ask("POST", "/v1/sessions", {"client": "test", "type": "playwright_mcp", "sandbox": {"network": {"mode": "public"}}})
    async with tools(made["provision"]["url"]) as client:
        opened = await client.call_tool("browser_navigate", {"url": f"{WEB}/second"})
        assert not opened.is_error, text(opened)
    print(json.dumps(made["provision"]["url"]))


async def after():
    url = json.load(sys.stdin)
    async with tools(url) as client:
        # The same page: the browser was not started anew.
        shown = await client.call_tool("browser_snapshot", {})
        assert "Page Title: Second" in text(shown), text(shown)
    ask("DELETE", f"/v1/sandboxes/{url.split('/mcp/')[1].split('/')[0]}")


asyncio.run(before() if sys.argv[1] == "before" else after())

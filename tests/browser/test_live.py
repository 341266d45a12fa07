"""A browser as people see it, and its controls."""

import asyncio
import os
import time

import pytest
import websockets

from conftest import KEY, URL, WEB, ask, live, session, text, tools

pytestmark = pytest.mark.anyio
READER, STRANGER = os.environ["READERS_KEY"], os.environ["STRANGERS_KEY"]


async def test_a_page_is_used_by_hand():
    with session() as made:
        box = made["sandbox_id"]
        async with live(box) as view:
            await view.page(lambda page: page["state"] == "live")
            await view.say("take")
            assert (await view.until(lambda told: isinstance(told, dict) and told["type"] == "control" and told["holder"] != "nobody"))["holder"] == "you"
            await view.say("navigate", url=WEB)
            await view.page(lambda page: page["title"] == "Start")
            entry, jpeg = await view.frame()
            assert jpeg[:3] == b"\xff\xd8\xff"
            await view.say("key", key="Tab")
            await view.say("type", text="Grace")
            await view.say("key", key="Tab")
            await view.say("key", key="Enter")
            await view.page(lambda page: page["title"] == "Hello Grace")
            await view.say("scroll", x=100, y=100, dy=300)
            await view.say("navigate", url=f"{WEB}/second")
            await view.page(lambda page: page["title"] == "Second")
            await view.say("back")
            await view.page(lambda page: page["title"] in ("Start", "Hello Grace"))
            # What hands cannot do is refused, and the view goes on.
            for kind, more in (("navigate", {"url": "file:///etc/passwd"}), ("click", {"x": -1, "y": 0}), ("key", {"key": "Nothing"})):
                await view.say(kind, **more)
                assert (await view.notice("refused"))["reason"]
            await view.say("release")
            assert (await view.notice("control"))["holder"] == "nobody"
        lines = str(ask("GET", f"/v1/sandboxes/{box}/journal"))
        assert "browser_control" in lines and "Grace" not in lines, lines


async def test_a_dialog_is_told_and_answered():
    with session() as made:
        async with live(made["sandbox_id"]) as view, tools(made["sandbox"]["mcp_url"]) as client:
            await client.call_tool("browser_navigate", {"url": WEB})
            await view.say("take")
            await view.page(lambda page: page["title"] == "Start")
            shown = text(await client.call_tool("browser_snapshot", {}))
            assert "Ask" in shown
            for _ in range(3):
                await view.say("key", key="Tab")
            await view.say("key", key="Enter")
            assert (await view.notice("dialog"))["message"] == "Sure?"
            await view.say("dialog", accept=True)
            await view.notice("dialog_closed")
            await view.page(lambda page: page["title"] == "yes")


async def test_one_has_the_controls_and_readers_only_look_on():
    with session() as made:
        box = made["sandbox_id"]
        async with live(box) as first, live(box) as second, live(box, READER) as reader:
            await first.say("take")
            await first.until(lambda told: isinstance(told, dict) and told.get("holder") == "you")
            await second.until(lambda told: isinstance(told, dict) and told.get("holder") == "other")
            await second.say("take")
            assert "somebody else" in (await second.notice("refused"))["reason"]
            await second.say("navigate", url=WEB)
            assert "take" in (await second.notice("refused"))["reason"]
            await reader.say("take")
            assert "scope" in (await reader.notice("refused"))["reason"]
            await first.say("navigate", url=WEB)
            await reader.page(lambda page: page["title"] == "Start")
            assert (await reader.frame())[1][:2] == b"\xff\xd8"
            await first.socket.close()
            await second.until(lambda told: isinstance(told, dict) and told.get("holder") == "nobody")
            await second.say("take")
            await second.until(lambda told: isinstance(told, dict) and told.get("holder") == "you")
        with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
            async with live(box, STRANGER):
                pass
        assert refused.value.response.status_code == 404


async def test_messages_that_mean_nothing_end_the_view():
    with session() as made:
        for message in ("{", '{"type": "evaluate", "script": "1"}', b"bytes", "x" * 100_000):
            async with live(made["sandbox_id"]) as view:
                await view.socket.send(message)
                with pytest.raises((websockets.exceptions.ConnectionClosed, TimeoutError)) as end:
                    await view.until(lambda told: False, 20)
                assert not isinstance(end.value, TimeoutError), message
        async with live(made["sandbox_id"]) as view:
            await view.page(lambda page: page["state"] == "live")


async def test_the_view_goes_on_after_crashes_and_a_rollback():
    with session() as made:
        box = made["sandbox_id"]
        async with live(box) as view, tools(made["sandbox"]["mcp_url"]) as client:
            opened = await client.call_tool("browser_navigate", {"url": WEB})
            await view.page(lambda page: page["title"] == "Start")
            await client.call_tool("browser_navigate", {"url": "chrome://crash"})
            await view.page(lambda page: page["state"] in ("crashed", "away"))
            for _ in range(4):
                if not (await client.call_tool("browser_navigate", {"url": WEB})).is_error:
                    break
            await view.page(lambda page: page["state"] == "live" and page["title"] == "Start")
            async with tools(f"{URL}/mcp/{box}") as other:
                undone = await other.call_tool("undo", {"to": str(opened.meta["warren/entry"])})
                assert not undone.is_error, text(undone)
            await view.page(lambda page: page["state"] == "away")
            await view.page(lambda page: page["state"] == "live")
            await client.call_tool("browser_navigate", {"url": f"{WEB}/second"})
            await view.page(lambda page: page["title"] == "Second")


async def test_frames_come_fast_enough_to_be_watched():
    with session() as made:
        async with live(made["sandbox_id"]) as view, tools(made["sandbox"]["mcp_url"]) as client:
            await client.call_tool("browser_navigate", {"url": f"{WEB}/moving"})
            await view.page(lambda page: page["title"] == "Moving")
            for _ in range(5):
                await view.frame()
            began, count = time.monotonic(), 0
            while time.monotonic() - began < 4:
                entry, jpeg = await view.frame()
                count += 1
            per_second = count / (time.monotonic() - began)
            print(f"live view: {per_second:.1f} frames per second, {len(jpeg)} bytes each")
            assert entry == (await client.call_tool("browser_press_key", {"key": "a"})).meta["warren/entry"] - 1
            # A machine that is busy with other tests is slower.
            assert per_second > 5

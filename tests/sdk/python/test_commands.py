"""Running programs."""

import asyncio
import threading
import time

import e2b
import pytest
from kit import done, until

pytestmark = pytest.mark.anyio


@pytest.mark.core
async def test_output_and_exit_codes(sandbox):
    both = await done(sandbox.commands.run("echo out; echo err >&2"))
    assert (both.stdout, both.stderr, both.exit_code) == ("out\n", "err\n", 0)
    with pytest.raises(e2b.CommandExitException) as failed:
        await done(sandbox.commands.run("echo some; exit 7"))
    assert (failed.value.exit_code, failed.value.stdout) == (7, "some\n")


@pytest.mark.core
async def test_directory_environment_and_user(sandbox):
    said = await done(sandbox.commands.run("pwd; echo $WORD", cwd="/tmp", envs={"WORD": "up"}))
    assert said.stdout == "/tmp\nup\n"
    assert (await done(sandbox.commands.run("echo $WORD"))).stdout == "\n"
    assert (await done(sandbox.commands.run("id -u; pwd", user="root"))).stdout == "0\n/root\n"
    assert (await done(sandbox.commands.run("sudo id -u"))).stdout == "0\n"
    with pytest.raises(e2b.InvalidArgumentException):
        await done(sandbox.commands.run("true", cwd="/no/such/place"))
    with pytest.raises(e2b.AuthenticationException):
        await done(sandbox.commands.run("true", user="nobody-of-this-name"))


@pytest.mark.core
async def test_output_is_told_as_it_comes(kit, sandbox):
    told = []
    hook = told.append
    if kit.is_async:

        async def hook(text):
            told.append(text)

    result = await done(sandbox.commands.run("for i in 1 2 3; do echo $i; done; echo bad >&2", on_stdout=hook, on_stderr=hook))
    assert "".join(told).count("\n") == 4 and result.stdout == "1\n2\n3\n"


async def test_much_output_and_split_characters(sandbox):
    result = await done(sandbox.commands.run("python3 -c \"print('é€𝄞' * 300000)\"", timeout=100))
    assert result.stdout == "é€𝄞" * 300000 + "\n"


@pytest.mark.core
async def test_a_program_in_the_background(kit, sandbox):
    command = await done(sandbox.commands.run("echo begun; sleep 1000", background=True, timeout=0))
    listed = {process.pid: process for process in await done(sandbox.commands.list())}
    assert listed[command.pid].args[-1] == "echo begun; sleep 1000"
    assert await done(sandbox.commands.kill(command.pid)) is True
    with pytest.raises(e2b.CommandExitException):
        await done(command.wait())
    assert await done(sandbox.commands.kill(command.pid)) is False
    alive = await done(sandbox.commands.run(f"kill -0 {command.pid} 2>/dev/null && echo alive || echo dead"))
    assert alive.stdout == "dead\n"


async def test_one_who_leaves_does_not_end_a_program(sandbox):
    command = await done(sandbox.commands.run("sleep 1; echo late > /tmp/late; sleep 1000", background=True, timeout=0))
    await done(command.disconnect())

    async def is_there():
        return await done(sandbox.files.exists("/tmp/late"))

    await until(is_there)
    again = await done(sandbox.commands.connect(command.pid, timeout=0))
    assert again.pid == command.pid
    assert await done(again.kill()) is True


@pytest.mark.core
async def test_input(sandbox):
    command = await done(sandbox.commands.run("cat", background=True, stdin=True, timeout=60))
    await done(sandbox.commands.send_stdin(command.pid, "one\n"))
    await done(sandbox.commands.send_stdin(command.pid, "two\n"))
    if hasattr(sandbox.commands, "close_stdin"):
        await done(sandbox.commands.close_stdin(command.pid))
        assert (await done(command.wait())).stdout == "one\ntwo\n"
    else:
        await done(command.kill())


async def test_input_as_a_stream(kit, sandbox):
    command = await done(sandbox.commands.run("cat", background=True, stdin=True, timeout=60))
    pieces = [f"{number}\n" for number in range(100)]
    if kit.is_async:
        stream = sandbox.commands.stream_input(command.pid)
        for piece in pieces:
            await done(stream.send(piece))
        await done(stream.close())
    else:
        sandbox.commands.stream_input(command.pid, pieces)
    await done(sandbox.commands.close_stdin(command.pid))
    assert (await done(command.wait())).stdout == "".join(pieces)


async def test_input_for_nobody(sandbox):
    with pytest.raises(e2b.NotFoundException):
        await done(sandbox.commands.send_stdin(999_999, "x"))
    command = await done(sandbox.commands.run("sleep 1000", background=True, timeout=0))
    with pytest.raises(e2b.SandboxException):
        await done(sandbox.commands.send_stdin(command.pid, "x"))
    with pytest.raises(e2b.NotFoundException):
        await done(sandbox.commands.connect(999_999))


@pytest.mark.core
async def test_a_program_that_takes_too_long(sandbox):
    began = time.monotonic()
    with pytest.raises(e2b.TimeoutException):
        await done(sandbox.commands.run("sleep 1000", timeout=1))
    assert time.monotonic() - began < 60

    async def is_over():
        return "sleep 1000" not in (await done(sandbox.commands.run("ps -eo args"))).stdout

    await until(is_over)


async def test_a_sandbox_that_dies_under_a_program(kit, sandbox):
    command = await done(sandbox.commands.run("sleep 1000", background=True, timeout=0))
    if kit.is_async:
        killed = asyncio.create_task(kit.Sandbox.kill(sandbox.sandbox_id))
    else:
        killed = threading.Thread(target=kit.Sandbox.kill, args=(sandbox.sandbox_id,))
        killed.start()
    with pytest.raises(e2b.TimeoutException) as told:
        await done(command.wait())
    assert "sandbox" in str(told.value).lower()
    if kit.is_async:
        await killed
    else:
        killed.join()


async def test_many_at_once(kit, sandbox):
    if not kit.is_async:
        return
    results = await asyncio.gather(*[sandbox.commands.run(f"echo {number}") for number in range(40)])
    assert [result.stdout for result in results] == [f"{number}\n" for number in range(40)]


@pytest.mark.core
async def test_a_terminal(kit, sandbox):
    screen = bytearray()
    if kit.is_async:

        async def show(data):
            screen.extend(data)

        terminal = await sandbox.pty.create(size=e2b.PtySize(rows=24, cols=80), on_data=show)
    else:
        terminal = sandbox.pty.create(size=e2b.PtySize(rows=24, cols=80))
    await done(sandbox.pty.resize(terminal.pid, e2b.PtySize(rows=30, cols=100)))
    await done(sandbox.pty.send_stdin(terminal.pid, b"stty size; tput cols; exit\n"))
    if kit.is_async:
        ended = await terminal.wait()
    else:
        ended = terminal.wait(on_pty=screen.extend)
    assert ended.exit_code == 0
    assert b"30 100" in screen and b"100" in screen

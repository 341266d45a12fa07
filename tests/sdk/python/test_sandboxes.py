"""Making, finding, changing and ending sandboxes."""

from datetime import datetime, timedelta, timezone

import e2b
import pytest
from kit import done, until

pytestmark = pytest.mark.anyio

GONE = getattr(e2b, "SandboxNotFoundException", e2b.NotFoundException)


async def pages(paginator):
    found = []
    while paginator.has_next:
        found.append(await done(paginator.next_items()))
    return found


async def listed(kit, **query):
    names = [sandbox.sandbox_id for page in await pages(kit.Sandbox.list(**query)) for sandbox in page]
    return names


@pytest.mark.core
async def test_a_sandbox_is_made_used_and_ended(kit):
    sandbox = await kit.make(metadata={"who": "me"}, envs={"COLOUR": "blue"})
    assert await done(sandbox.is_running())
    said = await done(sandbox.commands.run('echo "$COLOUR $E2B_SANDBOX $E2B_SANDBOX_ID"; id -un; pwd'))
    assert said.stdout.split() == ["blue", "true", sandbox.sandbox_id, "user", "/home/user"]
    info = await done(sandbox.get_info())
    assert info.sandbox_id == sandbox.sandbox_id
    assert info.metadata == {"who": "me"}
    assert info.state == e2b.SandboxState.RUNNING
    assert info.started_at < datetime.now(timezone.utc) < info.end_at
    assert await done(sandbox.kill()) is True
    assert await done(sandbox.is_running()) is False
    assert await done(sandbox.kill()) is False
    with pytest.raises(GONE):
        await done(kit.Sandbox.get_info(sandbox.sandbox_id))
    with pytest.raises(e2b.SandboxException):
        await done(kit.Sandbox.connect(sandbox.sandbox_id))


@pytest.mark.core
async def test_another_client_connects(kit, sandbox):
    await done(sandbox.files.write("note.txt", "hello"))
    again = await done(kit.Sandbox.connect(sandbox.sandbox_id))
    assert await done(again.files.read("note.txt")) == "hello"


async def test_a_connection_lengthens_a_life_and_never_shortens_it(kit):
    sandbox = await kit.make(timeout=600)
    before = (await done(sandbox.get_info())).end_at
    await done(kit.Sandbox.connect(sandbox.sandbox_id, timeout=5))
    assert (await done(sandbox.get_info())).end_at >= before - timedelta(seconds=1)
    await done(kit.Sandbox.connect(sandbox.sandbox_id, timeout=1200))
    assert (await done(sandbox.get_info())).end_at > before + timedelta(seconds=300)


@pytest.mark.core
async def test_time_can_be_shortened_and_ends(kit, sandbox):
    await done(sandbox.set_timeout(1))

    async def is_gone():
        return not await done(sandbox.is_running())

    await until(is_gone)
    with pytest.raises(GONE):
        await done(sandbox.set_timeout(10))


async def test_lists_are_filtered_and_come_in_pages(kit, mark):
    odd = {"mark": mark, "a b": "c&d=é"}
    first = await kit.make(metadata=odd)
    second = await kit.make(metadata={"mark": mark})
    third = await kit.make(metadata={"mark": mark})
    ids = [first.sandbox_id, second.sandbox_id, third.sandbox_id]
    mine = e2b.SandboxQuery(metadata={"mark": mark})
    assert await listed(kit, query=mine) == ids[::-1]
    assert await listed(kit, query=mine, order="asc") == ids
    assert await listed(kit, query=e2b.SandboxQuery(metadata=odd)) == [first.sandbox_id]
    assert await listed(kit, query=e2b.SandboxQuery(metadata={"mark": mark, "a b": "x"})) == []
    by_one = await pages(kit.Sandbox.list(query=mine, limit=1))
    assert [sandbox.sandbox_id for page in by_one for sandbox in page] == ids[::-1]
    assert [len(page) for page in by_one][:3] == [1, 1, 1]
    await done(second.pause())
    running = e2b.SandboxQuery(metadata={"mark": mark}, state=[e2b.SandboxState.RUNNING])
    paused = e2b.SandboxQuery(metadata={"mark": mark}, state=[e2b.SandboxState.PAUSED])
    assert await listed(kit, query=running) == [ids[2], ids[0]]
    assert await listed(kit, query=paused) == [ids[1]]
    since = (await done(third.get_info())).started_at
    later = e2b.SandboxQuery(metadata={"mark": mark}, started_after=since)
    assert third.sandbox_id in await listed(kit, query=later)
    assert await listed(kit, query=e2b.SandboxQuery(metadata={"mark": mark}, template="base")) == ids[::-1]
    assert await listed(kit, query=e2b.SandboxQuery(metadata={"mark": mark}, template="nothing")) == []


async def boot_of(sandbox):
    return await done(sandbox.files.read("/proc/sys/kernel/random/boot_id"))


async def test_a_pause_keeps_processes_and_a_cold_one_only_files(kit):
    sandbox = await kit.make(envs={"KEPT": "yes"})
    sleeper = await done(sandbox.commands.run("sleep 1000", background=True, timeout=0))
    boot = await boot_of(sandbox)
    assert await done(sandbox.pause()) is True
    assert await done(sandbox.is_running()) is False
    assert await done(sandbox.pause()) is False
    info = await done(kit.Sandbox.get_info(sandbox.sandbox_id))
    assert info.state == e2b.SandboxState.PAUSED
    again = await done(sandbox.connect())
    assert again.sandbox_id == sandbox.sandbox_id
    assert sleeper.pid in [process.pid for process in await done(again.commands.list())]
    assert (await done(again.commands.run("echo $KEPT"))).stdout == "yes\n"
    assert await boot_of(again) == boot
    await done(again.files.write("kept.txt", "here"))
    assert await done(again.pause(mode="filesystem")) is True
    cold = await done(again.connect())
    assert await done(cold.files.read("kept.txt")) == "here"
    assert await done(cold.commands.list()) == []
    assert await boot_of(cold) != boot


async def test_a_paused_sandbox_can_be_killed(kit, sandbox):
    await done(sandbox.pause())
    assert await done(sandbox.kill()) is True
    with pytest.raises(GONE):
        await done(kit.Sandbox.connect(sandbox.sandbox_id))


async def test_it_pauses_when_its_time_is_over_and_traffic_wakes_it(kit):
    sandbox = await kit.make(lifecycle={"on_timeout": "pause", "auto_resume": True})
    await done(sandbox.files.write("kept.txt", "here"))
    await done(sandbox.set_timeout(0))

    async def is_paused():
        return (await done(sandbox.get_info())).state == e2b.SandboxState.PAUSED

    await until(is_paused)
    assert await done(sandbox.files.read("kept.txt")) == "here"
    info = await done(sandbox.get_info())
    assert info.state == e2b.SandboxState.RUNNING
    assert info.lifecycle == {"on_timeout": "pause", "auto_resume": True}


async def test_without_auto_resume_it_stays_paused(kit):
    sandbox = await kit.make(lifecycle={"on_timeout": "pause"})
    await done(sandbox.pause())
    with pytest.raises(e2b.SandboxException):
        await done(sandbox.commands.run("true"))
    assert await done(sandbox.is_running()) is False


async def test_forks_have_the_same_files_and_lives_of_their_own(kit, sandbox):
    await done(sandbox.files.write("shared.txt", "before"))
    forks = await done(sandbox.fork(count=2))
    kit.made.extend(forks)
    assert len({fork.sandbox_id for fork in forks} | {sandbox.sandbox_id}) == 3
    await done(sandbox.files.write("shared.txt", "after"))
    for fork in forks:
        assert await done(fork.files.read("shared.txt")) == "before"


async def test_a_snapshot_makes_any_number_of_sandboxes(kit, mark):
    sandbox = await kit.make()
    await done(sandbox.files.write("state.txt", "one"))
    snapshot = await done(sandbox.create_snapshot())
    named = await done(sandbox.create_snapshot(name=f"snap-{mark}"))
    assert snapshot.names == [] and any(mark in name for name in named.names)
    await done(sandbox.kill())
    copy = await kit.make(template=snapshot.snapshot_id)
    assert await done(copy.files.read("state.txt")) == "one"
    other = await kit.make(template=f"snap-{mark}")
    assert await done(other.files.read("state.txt")) == "one"
    ids = [found.snapshot_id for page in await pages(kit.Sandbox.list_snapshots()) for found in page]
    assert snapshot.snapshot_id in ids and named.snapshot_id in ids
    for kept in (snapshot, named):
        assert await done(kit.Sandbox.delete_snapshot(kept.snapshot_id)) is True
        assert await done(kit.Sandbox.delete_snapshot(kept.snapshot_id)) is False
    with pytest.raises(e2b.SandboxException):
        await done(kit.Sandbox.create(template=snapshot.snapshot_id))


async def test_usage_is_told(kit, sandbox):
    async def measured():
        return await done(sandbox.get_metrics())

    sample = (await until(measured, 60))[0]
    assert sample.cpu_count >= 1 and sample.mem_total > 0 and sample.disk_total > 0


async def test_an_idempotency_key_makes_one_sandbox(kit, mark):
    first = await kit.make(idempotency_key=mark)
    second = await done(kit.Sandbox.create(timeout=300, idempotency_key=mark))
    assert first.sandbox_id == second.sandbox_id
    assert await done(second.commands.run("echo one")) is not None
    with pytest.raises(e2b.SandboxException):
        await done(kit.Sandbox.create(timeout=299, idempotency_key=mark))


async def test_network_rules_are_taken_told_and_replaced(kit):
    network = {"allow_out": ["example.com", "192.0.2.7"], "deny_out": ["0.0.0.0/0"]}
    sandbox = await kit.make(network=network)
    info = await done(sandbox.get_info())
    assert sorted(info.network["allow_out"]) == ["192.0.2.7", "example.com"]
    refused = await done(sandbox.commands.run("curl -sS -m 20 http://192.0.2.9/ || echo no", timeout=30))
    assert "no" in refused.stdout
    await done(sandbox.update_network({"deny_out": ["192.0.2.0/24"]}))
    info = await done(sandbox.get_info())
    assert info.network["deny_out"] == ["192.0.2.0/24"] and not info.network.get("allow_out")
    await done(sandbox.update_network({}))
    assert not ((await done(sandbox.get_info())).network or {}).get("deny_out")
    for wrong in ({"deny_out": ["example.com"]}, {"allow_out": ["example.com"]}):
        with pytest.raises(e2b.SandboxException):
            await done(kit.Sandbox.create(network=wrong))


async def test_no_internet(kit):
    sandbox = await kit.make(allow_internet_access=False)
    info = await done(sandbox.get_info())
    assert info.allow_internet_access is False
    refused = await done(sandbox.commands.run("curl -sS -m 20 http://192.0.2.9/ || echo no", timeout=30))
    assert "no" in refused.stdout


async def test_strangers_and_wrong_keys_are_told_nothing(kit, sandbox, stranger):
    with pytest.raises(e2b.AuthenticationException):
        await done(kit.Sandbox.create(api_key="e2b_" + "0" * 40))
    with pytest.raises(GONE):
        await done(kit.Sandbox.get_info(sandbox.sandbox_id, api_key=stranger))
    with pytest.raises(e2b.SandboxException):
        await done(kit.Sandbox.connect(sandbox.sandbox_id, api_key=stranger))
    assert await done(kit.Sandbox.kill(sandbox.sandbox_id, api_key=stranger)) is False
    assert await done(sandbox.is_running())
    seen = [one.sandbox_id for page in await pages(kit.Sandbox.list(api_key=stranger)) for one in page]
    assert sandbox.sandbox_id not in seen


async def test_wrong_wishes_are_refused(kit):
    for wish in (
        {"template": "there-is-no-such-template"},
        {"timeout": -1},
        {"timeout": 10**9},
        {"metadata": {"key": "x" * 5000}},
    ):
        with pytest.raises(e2b.SandboxException):
            await done(kit.Sandbox.create(**wish))

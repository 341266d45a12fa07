"""Files: contents, directories, what is told of them, links to them, and watches over them."""

import io
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request

import e2b
import pytest
from kit import done, until

pytestmark = pytest.mark.anyio

MISSING = getattr(e2b, "FileNotFoundException", e2b.NotFoundException)
Kind = e2b.FilesystemEventType


@pytest.mark.core
async def test_what_is_written_is_read(sandbox):
    written = await done(sandbox.files.write("notes/today.txt", "grüß dich"))
    assert (written.path, written.name) == ("/home/user/notes/today.txt", "today.txt")
    assert await done(sandbox.files.read("notes/today.txt")) == "grüß dich"
    assert await done(sandbox.files.read("~/notes/today.txt")) == "grüß dich"
    await done(sandbox.files.write("/tmp/raw", bytes(range(256))))
    assert bytes(await done(sandbox.files.read("/tmp/raw", format="bytes"))) == bytes(range(256))
    await done(sandbox.files.write("notes/today.txt", ""))
    assert await done(sandbox.files.read("notes/today.txt")) == ""
    owner = await done(sandbox.commands.run("stat -c '%U:%G %a' notes notes/today.txt"))
    assert owner.stdout == "user:user 755\nuser:user 644\n"


async def test_places_that_only_root_may_write(sandbox):
    await done(sandbox.files.write("/0/deep/file", "x"))
    assert (await done(sandbox.commands.run("stat -c %U /0/deep/file"))).stdout == "user\n"
    await done(sandbox.files.write("/root/mine", "y", user="root"))
    assert (await done(sandbox.commands.run("stat -c %U /root/mine", user="root"))).stdout == "root\n"


@pytest.mark.core
async def test_several_files_at_once(sandbox):
    files = [{"path": f"many/{number}.txt", "data": str(number)} for number in range(5)]
    written = await done(sandbox.files.write_files(files))
    assert [one.path for one in written] == [f"/home/user/many/{number}.txt" for number in range(5)]
    for number in range(5):
        assert await done(sandbox.files.read(f"many/{number}.txt")) == str(number)


async def test_every_way_to_send_and_to_receive(kit, sandbox):
    body = bytes(range(256)) * 20_000
    for name, options in (("plain", {}), ("gzip", {"gzip": True}), ("octets", {"use_octet_stream": True})):
        await done(sandbox.files.write(name, io.BytesIO(body), **options))
        assert bytes(await done(sandbox.files.read(name, format="bytes"))) == body
    stream = await done(sandbox.files.read("plain", format="stream"))
    received = b"".join([piece async for piece in stream]) if kit.is_async else b"".join(stream)
    assert received == body


@pytest.mark.core
async def test_what_is_missing_or_of_the_wrong_kind(sandbox):
    with pytest.raises(MISSING):
        await done(sandbox.files.read("nothing"))
    with pytest.raises(e2b.InvalidArgumentException):
        await done(sandbox.files.read("/tmp"))
    with pytest.raises(e2b.InvalidArgumentException):
        await done(sandbox.files.write("/tmp", "x"))
    with pytest.raises(MISSING):
        await done(sandbox.files.list("nothing"))
    with pytest.raises(e2b.InvalidArgumentException):
        await done(sandbox.files.list("/etc/passwd"))
    with pytest.raises(MISSING):
        await done(sandbox.files.rename("nothing", "something"))
    with pytest.raises(e2b.AuthenticationException):
        await done(sandbox.files.read("x", user="nobody-of-this-name"))
    with pytest.raises(e2b.SandboxException):
        await done(sandbox.files.list("~root"))
    assert await done(sandbox.files.exists("nothing")) is False
    assert await done(sandbox.files.exists("/etc/passwd")) is True
    await done(sandbox.files.remove("nothing"))


@pytest.mark.core
async def test_directories(sandbox):
    assert await done(sandbox.files.make_dir("a/b/c")) is True
    assert await done(sandbox.files.make_dir("a/b/c")) is False
    for path in ("a/z", "a/b/y", "a/b/c/x"):
        await done(sandbox.files.write(path, path))
    names = lambda entries: [entry.path.removeprefix("/home/user/") for entry in entries]
    assert names(await done(sandbox.files.list("a"))) == ["a/b", "a/z"]
    assert names(await done(sandbox.files.list("a", depth=3))) == ["a/b", "a/b/c", "a/b/c/x", "a/b/y", "a/z"]
    moved = await done(sandbox.files.rename("a/z", "new/place/z"))
    assert moved.path == "/home/user/new/place/z"
    assert await done(sandbox.files.read("new/place/z")) == "a/z"
    await done(sandbox.files.remove("a"))
    assert await done(sandbox.files.exists("a")) is False


async def test_what_is_told_of_a_file(sandbox):
    await done(sandbox.files.write("f", "12345"))
    await done(sandbox.commands.run("chmod 640 f; ln -s f link; ln -s gone broken; mkdir d"))
    info = await done(sandbox.files.get_info("f"))
    assert (info.name, info.path, info.size, info.mode, info.permissions) == (
        "f",
        "/home/user/f",
        5,
        0o640,
        "-rw-r-----",
    )
    assert (info.owner, info.group, info.type) == ("user", "user", e2b.FileType.FILE)
    link = await done(sandbox.files.get_info("link"))
    assert link.symlink_target == "/home/user/f" and link.mode == 0o640
    directory = await done(sandbox.files.get_info("d"))
    assert directory.type == e2b.FileType.DIR and directory.permissions == "drwxr-xr-x" and directory.size > 0


async def test_metadata_stays_with_a_file(sandbox):
    written = await done(sandbox.files.write("m", "x", metadata={"Author": "me", "kind": "note"}))
    assert written.metadata == {"author": "me", "kind": "note"}
    assert (await done(sandbox.files.get_info("m"))).metadata == {"author": "me", "kind": "note"}
    await done(sandbox.files.write("m", "y"))
    assert not (await done(sandbox.files.get_info("m"))).metadata
    with pytest.raises(e2b.InvalidArgumentException):
        await done(sandbox.files.write("m", "y", metadata={"k": "v" * 5000}))


def fetch(url, data=None, headers=None):
    """What a browser would do with a link."""
    request = urllib.request.Request(url, data=data, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=60, context=ssl.create_default_context()) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def form(name, body):
    edge = "edge-of-a-part"
    head = f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    data = head.encode() + body + f"\r\n--{edge}--\r\n".encode()
    return data, {"Content-Type": f"multipart/form-data; boundary={edge}"}


@pytest.mark.core
async def test_links_to_files(sandbox):
    await done(sandbox.files.write("shared.txt", "for all"))
    assert fetch(sandbox.download_url("shared.txt")) == (200, b"for all")
    assert fetch(sandbox.download_url("shared.txt", use_signature_expiration=600)) == (200, b"for all")
    over = sandbox.download_url("shared.txt", use_signature_expiration=-60)
    assert fetch(over) == (401, b'{"code":401,"message":"signature is already expired"}')
    link = sandbox.download_url("shared.txt")
    forged = re.sub("signature=v1_....", "signature=v1_AAAA", urllib.parse.unquote(link))
    assert fetch(forged)[0] == 401
    assert fetch(link.replace("shared.txt", "other.txt"))[0] == 401
    status, _ = fetch(sandbox.upload_url("sent.txt"), *form("sent.txt", b"by a form"))
    assert status == 200
    assert await done(sandbox.files.read("sent.txt")) == "by a form"
    assert fetch(sandbox.upload_url("sent.txt").replace("sent.txt", "x"), *form("x", b"y"))[0] == 401


class Seen:
    """Changes of a directory, by whichever way this half of the package tells them."""

    async def begin(self, kit, sandbox, path, **options):
        self.events = []
        if kit.is_async:
            self.handle = await sandbox.files.watch_dir(path, on_event=self.events.append, timeout=0, **options)
            self.poll = lambda: None
        else:
            self.handle = sandbox.files.watch_dir(path, **options)
            self.poll = lambda: self.events.extend(self.handle.get_new_events())
        return self

    def has(self, kind, name):
        self.poll()
        return any(event.type == kind and event.name == name for event in self.events)

    async def until(self, kind, name):
        import asyncio

        end = time.monotonic() + 30
        while not self.has(kind, name):
            assert time.monotonic() < end, f"{kind} of {name} is not among {self.events}"
            await asyncio.sleep(0.05)


@pytest.mark.core
async def test_a_directory_is_watched(kit, sandbox):
    await done(sandbox.files.make_dir("w"))
    seen = await Seen().begin(kit, sandbox, "w")
    await done(sandbox.files.write("w/new.txt", "1"))
    if not kit.is_async:
        # What was done before the question is told, without waiting.
        told = [(event.type, event.name) for event in seen.handle.get_new_events()]
        assert told == [(kind, "new.txt") for kind in (Kind.CREATE, Kind.CHMOD, Kind.WRITE)]
        assert seen.handle.get_new_events() == []
    else:
        await seen.until(Kind.WRITE, "new.txt")
        assert [event.type for event in seen.events] == [Kind.CREATE, Kind.CHMOD, Kind.WRITE]
    await done(sandbox.files.rename("w/new.txt", "w/other.txt"))
    await seen.until(Kind.RENAME, "new.txt")
    await seen.until(Kind.CREATE, "other.txt")
    await done(sandbox.commands.run("chmod 600 w/other.txt"))
    await seen.until(Kind.CHMOD, "other.txt")
    await done(sandbox.files.remove("w/other.txt"))
    await seen.until(Kind.REMOVE, "other.txt")
    await done(seen.handle.stop())


async def test_a_tree_is_watched_with_what_is_made_in_it(kit, sandbox):
    await done(sandbox.files.make_dir("t"))
    seen = await Seen().begin(kit, sandbox, "t", recursive=True, include_entry=True)
    await done(sandbox.files.make_dir("t/made/later"))
    await seen.until(Kind.CREATE, "made")
    await done(sandbox.files.write("t/made/later/f", "1"))
    await seen.until(Kind.WRITE, "made/later/f")
    entries = [event.entry for event in seen.events if event.name == "made/later/f" and event.entry]
    assert entries and entries[0].path == "/home/user/t/made/later/f"
    await done(seen.handle.stop())


async def test_what_cannot_be_watched(kit, sandbox):
    for path, told in (("nothing", MISSING), ("/etc/passwd", e2b.SandboxException)):
        with pytest.raises(told):
            await Seen().begin(kit, sandbox, path)


async def test_a_service_in_a_sandbox_is_reached(kit, sandbox):
    await done(sandbox.files.write("www/index.html", "a page"))
    await done(sandbox.commands.run("cd www && python3 -m http.server 8123", background=True, timeout=0))
    scheme = "https" if ":7443" in sandbox.get_host(8123) else "http"

    async def page():
        return fetch(f"{scheme}://{sandbox.get_host(8123)}/") == (200, b"a page")

    await until(page)


async def test_private_traffic_needs_a_token(kit):
    sandbox = await kit.make(network={"allow_public_traffic": False})
    await done(sandbox.commands.run("python3 -m http.server 8123", background=True, timeout=0))
    scheme = "https" if ":7443" in sandbox.get_host(8123) else "http"
    url = f"{scheme}://{sandbox.get_host(8123)}/"
    assert fetch(url)[0] == 403
    assert fetch(url, headers={"e2b-traffic-access-token": "wrong"})[0] == 403
    token = {"e2b-traffic-access-token": sandbox.traffic_access_token}

    async def page():
        return fetch(url, headers=token)[0] == 200

    await until(page)

#!/usr/bin/env python3
"""Writes the inputs that fuzzing begins with into fuzz/corpus: one of each kind, named after what it is.

Inputs that broke something stay beside them under names of their own. Run it again after a change here; what it wrote before is replaced.
"""
import gzip
import io
import json
import os
import struct
import tarfile

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def seed(target, name, data):
    directory = os.path.join(CORPUS, target)
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, name), "wb") as file:
        file.write(data)


# Requests over HTTP/1. The first byte is how many bytes arrive at a time, less one.

GET = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"


def request(line, *headers, body=b""):
    lines = [line, *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def heads():
    def put(name, data, tear=255):
        seed("heads", name, bytes([tear]) + data)

    post, host = "POST /p HTTP/1.1", "Host: a.example"
    put("get", GET)
    put("byte-by-byte", GET, 0)
    put("two-at-once", GET + b"GET /x HTTP/1.1\r\nHost: b.example:8080\r\n\r\n")
    put("length", request(post, host, "Content-Length: 5", body=b"hello" + GET))
    chunks = b"5\r\nhello\r\n0\r\n\r\n"
    put("chunks", request(post, host, "Transfer-Encoding: chunked", body=chunks + GET))
    trailers = request(post, host, "Transfer-Encoding: chunked", "Trailer: X-T", "TE: trailers", body=b"3;a=b\r\nabc\r\n0\r\nX-T: 1\r\n\r\n")
    put("trailers", trailers, 6)
    put("length-and-chunks", request(post, host, "Content-Length: 4", "Transfer-Encoding: chunked", body=chunks))
    put("two-lengths", request(post, host, "Content-Length: 4", "Content-Length: 5", body=b"hello"))
    put("length-list", request(post, host, "Content-Length: 5, 5", body=b"hello"))
    put("two-codings", request(post, host, "Transfer-Encoding: gzip", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"))
    put("coding-tab", request(post, host, "Transfer-Encoding:\tchunked", "Connection: transfer-encoding", body=b"0\r\n\r\n"))
    put("connection-length", request(post, host, "Content-Length: 5", "Connection: content-length", body=b"hello" + GET))
    put("connection-host", request("GET / HTTP/1.1", host, "Connection: host"))
    put("absolute", request("GET http://a.example:80/x HTTP/1.1", "Host: a.example:80"))
    put("absolute-other", request("GET http://a.example/x HTTP/1.1", "Host: b.example"))
    put("connect", request("CONNECT a.example:443 HTTP/1.1", "Host: a.example:443", body=b"\x16\x03\x01"))
    put("upgrade", request("GET /ws HTTP/1.1", host, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", body=b"\x81\x00"))
    put("upgrade-h2c", request("GET / HTTP/1.1", host, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQ"))
    put("expect", request("PUT /p HTTP/1.1", host, "Expect: 100-continue", "Content-Length: 3", body=b"abc"))
    put("old", request("GET / HTTP/1.0"))
    put("old-kept", request("GET / HTTP/1.0", host, "Connection: keep-alive", body=GET))
    put("old-chunks", request("POST / HTTP/1.0", host, "Transfer-Encoding: chunked", body=b"0\r\n\r\n"))
    put("bare-lf", b"GET / HTTP/1.1\nHost: a.example\n\n")
    put("blank-lines", b"\r\n\r\n" + GET)
    put("folded", request("GET / HTTP/1.1", host, "X: a", " Host: b.example"))
    put("two-hosts", request("GET / HTTP/1.1", host, "Host: b.example"))
    put("host-space", request("GET / HTTP/1.1", "Host : a.example"))
    put("host-v6", request("OPTIONS * HTTP/1.1", "Host: [2001:db8::1]:81"))
    put("host-v4", request("HEAD /?q HTTP/1.1", "hOST: 192.0.2.1", "Cookie: a=b"))
    put("host-in-body", request("POST / HTTP/1.1", "Content-Length: 20", body=b"Host: b.example\r\n\r\n.."))
    put("preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    put("brew", request("BREW /pot HTTP/1.1", host))
    put("long-method", request("A" * 100 + " / HTTP/1.1", host))


# Greetings of TLS.


def sized(data):
    return struct.pack(">H", len(data)) + data


def extension(kind, data):
    return struct.pack(">H", kind) + sized(data)


def server_names(*names):
    return extension(0, sized(b"".join(b"\0" + sized(name) for name in names)))


def message(body, kind=1):
    return bytes([kind]) + struct.pack(">I", len(body))[1:] + body


def record(data, kind=22):
    return bytes([kind, 3, 1]) + sized(data)


def client_hello(extensions, session=b"", suites=b"\x13\x01\x13\x02"):
    begin = b"\x03\x03" + b"\x07" * 32 + bytes([len(session)]) + session + sized(suites) + b"\x01\0"
    return message(begin + sized(b"".join(extensions)))


def hello():
    def put(name, data):
        seed("hello", name, data)

    groups, algorithms = extension(10, sized(b"\0\x1d\0\x17")), extension(13, sized(b"\x04\x03\x08\x04\x05\x03"))
    usual = [extension(43, b"\x04\x03\x04\x03\x03"), groups, algorithms, extension(51, sized(b"\0\x1d" + sized(b"k" * 32)))]
    named = server_names(b"a.example")
    for name, extensions in {
        "named": [named, *usual],
        "nameless": usual,
        "upper": [server_names(b"A.Example."), *usual],
        "address": [server_names(b"192.0.2.1"), *usual],
        "odd-name": [server_names(b"a b\xff"), *usual],
        "two-names": [server_names(b"a.example", b"b.example"), *usual],
        "two-lists": [named, server_names(b"b.example"), *usual],
        "encrypted": [named, extension(0xFE0D, b"\0" * 40), *usual],
        "psk": [named, *usual, extension(45, b"\1\1"), extension(41, sized(sized(b"i" * 8) + b"\0" * 4) + sized(b"\x20" + b"b" * 32))],
    }.items():
        put(name, record(client_hello(extensions)))
    put("session", record(client_hello([named, extension(16, sized(b"\x02h2\x08http/1.1")), *usual], session=b"s" * 32)))
    old = [named, extension(23, b""), extension(0xFF01, b"\0"), extension(35, b""), extension(11, b"\1\0"), groups, algorithms]
    put("tls12", record(client_hello(old, suites=b"\xc0\x2b\xc0\x2f")))
    whole = client_hello([named, *usual])
    put("in-pieces", b"".join(record(whole[at : at + 7]) for at in range(0, len(whole), 7)))
    put("two-messages", record(whole + message(b"", 14)))
    put("unfinished", record(whole)[:60])
    put("no-extensions", record(message(b"\x03\x03" + b"\x07" * 32 + b"\0" + sized(b"\x13\x01") + b"\x01\0")))
    put("alert", record(b"\x02\x28", 21))
    put("ssl2", b"\x80\x2e\1\3\1\0\x15\0\0\0\x10")


# Questions about names, and answers. The first byte says how it is asked, the second how long the question is.

HERE = b"\xc0\x0c"


def name(text):
    return b"".join(bytes([len(label)]) + label for label in text.encode().split(b".") if label) + b"\0"


def question(asked, kind, flags=0x0100, edns=None, of_class=1):
    asked = asked if isinstance(asked, bytes) else name(asked)
    data = struct.pack(">HHHHHH", 0x7A7A, flags, 1, 0, 0, edns is not None) + asked + struct.pack(">HH", kind, of_class)
    return data if edns is None else data + b"\0" + struct.pack(">HHIH", 41, 1232, edns, 0)


def resource(owner, kind, data, ttl=60):
    owner = owner if isinstance(owner, bytes) else name(owner)
    return owner + struct.pack(">HHIH", kind, 1, ttl, len(data)) + data


def answer(asked, kind, answers=(), authorities=(), additionals=(), flags=0x8180):
    counts = struct.pack(">HHHHHH", 0x7A7A, flags, 1, len(answers), len(authorities), len(additionals))
    return counts + name(asked) + struct.pack(">HH", kind, 1) + b"".join([*answers, *authorities, *additionals])


def dns():
    def put(called, how, asked, answered=b""):
        seed("dns", called, bytes([how, len(asked)]) + asked + answered)

    www, here = "www.a.example", "t.example"
    v4 = [resource(HERE, 1, bytes([192, 0, 2, 1])), resource(HERE, 1, bytes([10, 0, 0, 1]), 9999)]
    for how in [0, 1, 2, 3, 4, 12, 20, 28]:
        put(f"address-{how}", how, question(www, 1), answer(www, 1, v4))
    signature = resource(HERE, 46, b"\0\1\5\2\0\0\0\x3c" + b"\0" * 8 + b"\0\1" + name("example") + b"sig")
    put("signed", 20, question(www, 1, edns=0x8000), answer(www, 1, [resource(HERE, 1, bytes([93, 184, 216, 34])), signature]))
    v6 = [bytes.fromhex("20010db8000000000000000000000001"), bytes.fromhex("00000000000000000000ffff0a000001")]
    chain = [resource(HERE, 5, name("b.example")), resource("b.example", 5, name("c.example"))]
    put("alias", 28, question(www, 28), answer(www, 28, chain + [resource("c.example", 28, address) for address in v6]))
    denied = [resource(HERE, 5, name("b.example")), resource("b.example", 1, bytes([1, 2, 3, 4]))]
    put("alias-denied", 18, question(www, 1), answer(www, 1, denied))
    soa = name("ns.example") + name("x.example") + struct.pack(">IIIII", 1, 2, 3, 4, 5)
    put("none", 20, question("nope.example", 1), answer("nope.example", 1, authorities=[resource("example", 6, soa)], flags=0x8183))
    stray = [resource(HERE, 1, bytes([10, 0, 0, 1]))]
    put("text", 20, question(here, 16), answer(here, 16, [resource(HERE, 16, b"\5hello")], additionals=stray))
    put("mail", 20, question(here, 15), answer(here, 15, [resource(HERE, 15, b"\0\x0a" + HERE)]))
    service = resource(HERE, 33, b"\0\1\0\2\0\x50" + name("h.example"))
    put("service", 20, question("_a._tcp.t.example", 33), answer("_a._tcp.t.example", 33, [service]))
    put("https", 20, question(here, 65), answer(here, 65, [resource(HERE, 65, b"\0\1\0\0\4\0\4\x0a\0\0\1")]))
    put("root", 20, question(b"\0", 48), answer("", 48, [resource(b"\0", 48, b"\1\1\3\x0dkey")]))
    put("reverse", 4, question("1.0.0.10.in-addr.arpa", 12))
    put("reverse6", 4, question("1.0." + "0." * 30 + "ip6.arpa", 12))
    put("localhost", 4, question("x.localhost", 1))
    put("any", 4, question(here, 255))
    put("chaos", 4, question("version.bind", 16, of_class=3))
    put("dot-in-label", 4, question(b"\3a.b\7example\0", 1))
    put("version-1", 4, question(here, 1, edns=0x10000))
    put("notify", 4, question(here, 6, flags=0x2000))
    put("loop", 20, question(here, 1), answer(here, 1, [resource(HERE, 5, HERE), resource(b"\xc0\x1f", 1, bytes([9] * 4))]))
    put("cut", 20, question(here, 1), answer(here, 1, flags=0x8380))
    put("failed", 20, question(here, 1), answer(here, 1, flags=0x8182))
    many = [resource(HERE, 1, bytes([9, 9, 9, last])) for last in range(100)]
    put("many", 20, question(here, 1, edns=0), answer(here, 1, many))
    put("many-stream", 28, question(here, 1), answer(here, 1, many))


# Archives. The first byte says of what; parts are divided by a seam.

SEAM = b"\0|part|\0"


def tar(*entries, form=tarfile.PAX_FORMAT):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for path, kind, more in entries:
            info = tarfile.TarInfo(path)
            content = more.pop("content", b"")
            info.type, info.size, info.mode, info.mtime = kind, len(content), more.pop("mode", 0o755), 1_700_000_000
            for field, value in more.items():
                setattr(info, field, value)
            archive.addfile(info, io.BytesIO(content))
    # Without the zeros that fill a tape's record.
    return buffer.getvalue().rstrip(b"\0").ljust((len(buffer.getvalue().rstrip(b"\0")) + 511) // 512 * 512, b"\0") + b"\0" * 1024


def file(path, content=b"x", **more):
    return (path, tarfile.REGTYPE, {"content": content, **more})


def directory(path, **more):
    return (path, tarfile.DIRTYPE, more)


def link(path, to, kind=tarfile.SYMTYPE):
    return (path, kind, {"linkname": to})


def gnu_sparse():
    header = bytearray(tar(file("sparse", b"y" * 512), form=tarfile.GNU_FORMAT))
    header[156:157] = b"S"
    header[386:410] = b"00000001000\0" + b"00000001000\0"
    header[483:495] = b"00000010000\0"
    return bytes(header)


def archives():
    def put(called, what, *parts):
        seed("archives", called, bytes([what]) + SEAM.join(parts))

    tree = tar(directory("etc"), file("etc/passwd", b"root:x:0:0::/:/bin/sh\n"), link("bin", "usr/bin"), file("usr/bin/sh"), link("sh2", "usr/bin/sh", tarfile.LNKTYPE))
    put("tree", 1, tree)
    put("tree-gzip", 0, gzip.compress(tree, mtime=0))
    block = b"".join([b"\x28\xb5\x2f\xfd\xa0", struct.pack("<I", len(tree)), (len(tree) << 3 | 1).to_bytes(3, "little"), tree])
    put("tree-zstd", 0, block)
    put("root", 2, tree)
    put("old-format", 1, tar(file("a/b/c/" + "d" * 90, b"1"), form=tarfile.USTAR_FORMAT))
    put("long-names", 1, tar(file("n" * 120 + "/" + "m" * 120), link("l", "t" * 200), form=tarfile.GNU_FORMAT))
    xattrs = {"SCHILY.xattr.user.a": "1", "SCHILY.xattr.trusted.overlay.opaque": "y", "SCHILY.xattr.security.capability": "x"}
    put("attributes", 1, tar(directory("d", pax_headers=xattrs), file("d/f", pax_headers={"mtime": "-1.25", "uid": "7"})))
    put("sparse-gnu", 1, gnu_sparse())
    holes = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "holes", "GNU.sparse.realsize": "4096"}
    put("sparse-pax", 1, tar(file("GNUSparseFile.0/holes", b"1\n512\n512\n".ljust(512, b"\0") + b"z" * 512, pax_headers=holes)))
    put("kinds", 1, tar(("p", tarfile.FIFOTYPE, {}), ("dev/null", tarfile.CHRTYPE, {"devmajor": 1, "devminor": 3}), ("c", tarfile.CHRTYPE, {}), file("proc/x")))
    put("outward", 1, tar(link("up", "../../../.."), file("up/canary/file"), link("abs", "/canary"), file("abs/file"), link("hard", "abs/file", tarfile.LNKTYPE)))
    put("dots", 1, tar(file("../canary/file")))
    put("deep", 1, tar(file("1/2/3/4/5/6/7/8"), file("1/2/a/b/c/d/e/f")))
    put("replaced", 1, tar(directory("d"), file("d/f"), link("d", "e"), directory("e"), file("d/g"), file("d")))
    put("layer", 3, tar(directory("etc"), file("etc/x"), link("usr", "/"), file("usr/lib/y")))
    docker = tar(
        file("manifest.json", json.dumps([{"Config": "c.json", "Layers": ["l/layer.tar", "m/layer.tar"]}]).encode()),
        file("c.json", json.dumps({"architecture": "amd64", "os": "linux", "config": {"Env": ["A=b"], "Cmd": ["sh"]}}).encode()),
        file("l/layer.tar", tree),
        link("m/layer.tar", "../l/layer.tar"),
        form=tarfile.USTAR_FORMAT,
    )
    put("docker", 0, docker)
    put("docker-sealed", 1, docker)
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"User": "1000", "WorkingDir": "/srv", "Entrypoint": ["/e"]}}).encode()
    above = tar(file("etc/.wh.passwd", b""), file("usr/.wh..wh..opq", b""), file("usr/new"), file(".wh.bin", b""))
    put("image", 6, config, tree, above)
    ids = [f"{digit * 8}-{digit * 4}-4{digit * 3}-8{digit * 3}-{digit * 12}" for digit in "ab"]
    first, second, snapshot = "layer-" + ids[0], "layer-" + ids[1], "snap-" + ids[0]
    put("history", 5, *history_of(first, second, snapshot))


def history_of(first, second, snapshot):
    layers = [{"id": first, "created_unix_ms": 1}, {"id": second, "created_unix_ms": 2}]
    snapshots = [{"id": snapshot, "name": "one", "created_unix_ms": 3, "stack": [1, 0]}]
    manifest = json.dumps({"format": 1, "template": "plain", "layers": layers, "snapshots": snapshots}).encode()
    hidden = ("upper-0/gone", tarfile.CHRTYPE, {})
    marks = {"SCHILY.xattr.trusted.overlay.redirect": "/a"}
    below = tar(directory("upper-0"), directory("upper-0/a"), file("upper-0/a/f"), file("upper-1/g"))
    above = tar(directory("upper-0"), hidden, directory("upper-0/b", pax_headers=marks), link("upper-0/l", "upper-0/a/f"))
    return manifest, below, above


# Frames and messages. The first byte says which reader is meant, the second how the stream is torn.


def cbor(value):
    def head(major, number):
        for size, code, form in [(24, None, None), (1 << 8, 24, ">B"), (1 << 16, 25, ">H"), (1 << 32, 26, ">I")]:
            if number < size:
                return bytes([major << 5 | (number if code is None else code)]) + (b"" if code is None else struct.pack(form, number))
        return bytes([major << 5 | 27]) + struct.pack(">Q", number)

    if value is None or isinstance(value, bool):
        return {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[value]
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, (bytes, str)):
        return head(2, len(value)) + value if isinstance(value, bytes) else head(3, len(value.encode())) + value.encode()
    return head(4, len(value)) + b"".join(cbor(item) for item in value)


def frame(kind, payload):
    return struct.pack("<IB", len(payload), kind) + payload


def frames():
    def put(called, reader, data, tear=4):
        seed("frames", called, bytes([reader, tear]) + data)

    exit_of = [[0, [0]], 5, 6, 7]
    messages = {
        "ping": [0, []],
        "start": [1, [[[b"sh", b"-c", b"true"], [b"A=b"], b"/tmp", None]]],
        "signal": [4, [[[0, [1]], 9, True]]],
        "connect": [9, [8080]],
        "pong": [0, [[1, "0.1.0", 12]]],
        "exited": [2, [exit_of]],
        "missed": [3, [1, 2]],
        "failed": [12, [[3, "no", 2]]],
        "written": [10, [5]],
        "boot": [[3], 4, b"box", 100000, [[b"/", [5]]], 6, [], 64, 7, [0], [[7, 1024]], 0, b"", 8, None, [[b"A=b"], None, None], 9],
        "sudo": [None, [b"id"], 0, [], b"/"],
    }
    for called, content in messages.items():
        put(f"cbor-{called}", 1, cbor(content))
    stream = frame(0, cbor(messages["start"])) + frame(1, b"data") + frame(2, b"out") + frame(3, b"err") + frame(4, b"")
    put("frames", 0, stream)
    put("frames-cut", 0, stream[:-3], 0)
    put("frames-long", 0, struct.pack("<IB", 1 << 31, 0))
    start = {"process": {"cmd": "/bin/sh", "args": ["-l"], "envs": {"A": "b"}, "cwd": "/"}, "pty": {"size": {"cols": 80, "rows": 24}}, "tag": "t"}
    entry = {"name": "a", "type": "FILE_TYPE_FILE", "path": "/a", "size": "5", "mode": 420, "modifiedTime": "2026-01-31T12:00:00.5Z", "metadata": {"k": "v"}}
    bodies = {
        "start": start,
        "stat": {"entry": entry},
        "list": {"entries": [entry]},
        "event": {"event": {"data": {"stdout": "aGkK"}}},
        "end": {"event": {"end": {"exitCode": -1, "status": "signal: killed", "error": "killed"}}},
        "input": {"process": {"pid": 42}, "input": {"stdin": "YQ=="}},
        "signal": {"process": {"tag": "a"}, "signal": "SIGNAL_SIGKILL"},
        "watch": {"path": "/", "recursive": True, "includeEntry": True},
    }
    for called, content in bodies.items():
        text = json.dumps(content).encode()
        put(f"json-{called}", 4, text)
        put(f"envelope-{called}", 2, b"\0" + struct.pack(">I", len(text)) + text + b"\x02\0\0\0\x02{}", 2)
    put("binary-start", 3, b"\x0a\x0f\x0a\x02sh\x12\x02-l\x1a\x05\x0a\x01A\x12\x00\x1a\x01t\x20\x01")
    put("binary-event", 3, b"\x0a\x05\x12\x03\x0a\x01x")
    put("binary-entry", 3, b"\x0a\x13\x0a\x01a\x10\x01\x1a\x02/a\x20\x05\x4a\x04\x08\x05\x10\x07")
    rest = {"templateID": "base", "timeout": 300, "metadata": {"a": "b"}, "network": {"allowOut": ["*.example"], "denyOut": ["0.0.0.0/0"], "rules": {"a.example": [{"transform": {"headers": {"X": "y"}}}]}}}
    put("body-e2b", 5, json.dumps(rest).encode())
    put("body-v1", 5, json.dumps({"template": "host", "labels": {"a": "b"}, "network": {"mode": "allow", "allow": ["*.example:443"]}, "limits": {"memory_bytes": 1 << 28}}).encode())
    put("body-exec", 5, json.dumps({"argv": ["sh", "-c", "true"], "env": {"A": "b"}, "stdin": "eA==", "timeout_ms": 5}).encode())
    put("time", 5, b"2026-01-31T12:00:00.123456789+01:30")
    put("rule", 5, b"*.example:443")
    put("network", 5, b"10.0.0.0/8")
    put("filter", 5, b"a=b&c=%20d")


if __name__ == "__main__":
    for write in [archives, dns, frames, heads, hello]:
        write()

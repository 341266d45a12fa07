"""Everything that answers on the test's Internet, in one process.

Arguments: the directory with `zone.json`, certificates and the log. Every contact is a line of JSON in `contacts.jsonl`.

zone.json: {"example.test": ["198.51.100.10"], ...}; a name whose list has lists in it answers with the first at the
first question, the second at the second and so on, and stays with the last.
"""

import asyncio
import json
import os
import socket
import ssl
import struct
import sys

PLACE = sys.argv[1]
WEB = ["198.51.100.10", "198.51.100.20", "203.0.113.80", "2001:db8:1::10"]
# Nobody may ever come here: a private machine, a metadata service, a carrier's and a neighbour's.
TRAPS = ["10.7.7.7", "169.254.169.254", "100.64.7.7", "192.168.7.7", "172.16.7.7", "fd00:7::7"]
RESOLVER = "192.0.2.53"
OTHER_RESOLVER = "198.51.100.53"

log = open(os.path.join(PLACE, "contacts.jsonl"), "a", buffering=1)
asked = {}


def contact(kind, where, peer, **more):
    log.write(json.dumps({"kind": kind, "address": where[0], "port": where[1], "peer": peer[0], **more}) + "\n")


def zone():
    with open(os.path.join(PLACE, "zone.json")) as file:
        return json.load(file)


def answer(message):
    (number, _, questions, _, _, _) = struct.unpack("!6H", message[:12])
    labels, at = [], 12
    while message[at]:
        labels.append(message[at + 1 : at + 1 + message[at]].decode("latin-1"))
        at += 1 + message[at]
    kind = struct.unpack("!H", message[at + 1 : at + 3])[0]
    question = message[12 : at + 5]
    name = ".".join(labels).lower()
    records = zone().get(name)
    if records is None:
        return name, struct.pack("!6H", number, 0x8583, 1, 0, 0, 0) + question
    if records and isinstance(records[0], list):
        turn = asked.get((name, kind), 0)
        asked[(name, kind)] = turn + 1
        records = records[min(turn, len(records) - 1)]
    family = {1: socket.AF_INET, 28: socket.AF_INET6}.get(kind)
    data = []
    for record in records:
        if (":" in record) == (family == socket.AF_INET6) and family is not None:
            data.append(socket.inet_pton(family, record))
    body = b"".join(b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 0 if name.startswith("rebind") else 30, len(it)) + it for it in data)
    return name, struct.pack("!6H", number, 0x8580, 1, len(data), 0, 0) + question + body


class Resolver(asyncio.DatagramProtocol):
    def __init__(self, where):
        self.where = where

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, message, peer):
        try:
            name, reply = answer(message)
        except Exception:
            return
        contact("dns", (self.where, 53), peer, name=name)
        self.transport.sendto(reply, peer)


class Echo(asyncio.DatagramProtocol):
    def __init__(self, where):
        self.where = where

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, message, peer):
        contact("udp", self.where, peer)
        self.transport.sendto(message, peer)


async def dns_stream(where, reader, writer):
    try:
        length = struct.unpack("!H", await reader.readexactly(2))[0]
        name, reply = answer(await reader.readexactly(length))
        contact("dns", (where, 53), writer.get_extra_info("peername"), name=name)
        writer.write(struct.pack("!H", len(reply)) + reply)
        await writer.drain()
    except Exception:
        pass
    writer.close()


async def web(where, kind, reader, writer):
    """Answers every request with what it was asked, as JSON; files below `files/` as they are."""
    peer = writer.get_extra_info("peername")
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            method, path, _ = lines[0].split(" ", 2)
            headers = {}
            for line in lines[1:]:
                if ":" in line:
                    key, value = line.split(":", 1)
                    headers[key.strip().lower()] = value.strip()
            length = int(headers.get("content-length", "0"))
            sent = await reader.readexactly(length) if length else b""
            contact(kind, where, peer, host=headers.get("host"), path=path, headers=headers)
            status, body, typ = "200 OK", b"", "application/json"
            place = os.path.normpath(os.path.join(PLACE, "files", path.split("?")[0].lstrip("/")))
            if path.startswith("/drip"):
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                while True:
                    writer.write(b"5\r\ndrip\n\r\n")
                    await writer.drain()
                    await asyncio.sleep(0.05)
            elif path.startswith("/bytes/"):
                count = int(path.split("/")[2])
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % count)
                piece = b"\0" * 65536
                while count:
                    writer.write(piece[: min(count, 65536)])
                    count -= min(count, 65536)
                    await writer.drain()
                continue
            elif os.path.isdir(place) and os.path.isfile(os.path.join(place, "index.html")):
                with open(os.path.join(place, "index.html"), "rb") as file:
                    body, typ = file.read(), "text/html"
            elif os.path.isfile(place):
                with open(place, "rb") as file:
                    body, typ = file.read(), "application/octet-stream"
                if path.endswith(".json") or path.split("/")[1] == "npm" and not path.endswith(".tgz"):
                    typ = "application/json"
            elif path.startswith("/simple") or path.startswith("/npm") or path.startswith("/git"):
                status = "404 Not Found"
            else:
                body = json.dumps({"method": method, "path": path, "headers": headers, "address": where[0], "bytes": len(sent)}).encode()
            if method == "HEAD":
                writer.write(f"HTTP/1.1 {status}\r\nContent-Type: {typ}\r\nContent-Length: {len(body)}\r\n\r\n".encode())
            else:
                writer.write(f"HTTP/1.1 {status}\r\nContent-Type: {typ}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
            if headers.get("connection", "").lower() == "close":
                break
    except Exception:
        pass
    writer.close()


async def banner(where, reader, writer):
    """Speaks first, as mail and database servers do, and then says back every line."""
    contact("banner", where, writer.get_extra_info("peername"))
    try:
        writer.write(b"220 welcome\n")
        while line := await reader.readline():
            writer.write(b"said " + line)
            await writer.drain()
    except Exception:
        pass
    writer.close()


async def trap(where, reader, writer):
    contact("trap", where, writer.get_extra_info("peername"))
    writer.close()


async def main():
    loop = asyncio.get_running_loop()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(os.path.join(PLACE, "server.pem"), os.path.join(PLACE, "server.key"))
    for resolver in (RESOLVER, OTHER_RESOLVER):
        await loop.create_datagram_endpoint(lambda resolver=resolver: Resolver(resolver), local_addr=(resolver, 53))
        await asyncio.start_server(lambda r, w, resolver=resolver: dns_stream(resolver, r, w), resolver, 53)
    for address in WEB:
        for port in (80, 8080, 853):
            await asyncio.start_server(lambda r, w, a=address, p=port: web((a, p), "http", r, w), address, port)
        await asyncio.start_server(lambda r, w, a=address: web((a, 443), "https", r, w), address, 443, ssl=tls)
        await asyncio.start_server(lambda r, w, a=address: banner((a, 2525), r, w), address, 2525)
        for port in (443, 9000, 5353, 123):
            await loop.create_datagram_endpoint(lambda a=address, p=port: Echo((a, p)), local_addr=(address, port))
    for address in TRAPS:
        for port in (80, 443, 8080):
            await asyncio.start_server(lambda r, w, a=address, p=port: trap((a, p), r, w), address, port)
        await loop.create_datagram_endpoint(lambda a=address: Echo((a, 9000)), local_addr=(address, 9000))
    open(os.path.join(PLACE, "ready"), "w").close()
    await asyncio.Event().wait()


asyncio.run(main())

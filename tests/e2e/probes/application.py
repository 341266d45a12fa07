# An application on one port of the loopback: says who it is and what it was asked, and echoes what comes over a web socket.
import asyncio, base64, hashlib, json, sys

NAME, PORT = sys.argv[1], int(sys.argv[2])
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


async def echo(reader, writer, key):
    accept = base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + accept.encode() + b"\r\n\r\n"
    )
    while True:
        first, second = await reader.readexactly(2)
        length = second & 127
        if length == 126:
            length = int.from_bytes(await reader.readexactly(2), "big")
        mask = await reader.readexactly(4)
        body = bytes(byte ^ mask[at % 4] for at, byte in enumerate(await reader.readexactly(length)))
        head = bytes([first, length]) if length < 126 else bytes([first, 126]) + length.to_bytes(2, "big")
        writer.write(head + body)
        await writer.drain()


async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            if headers.get("upgrade") == "websocket":
                return await echo(reader, writer, headers["sec-websocket-key"])
            told = json.dumps({"name": NAME, "line": head[0], "headers": headers, "body": len(body)}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(told) + told)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", PORT, backlog=1024)
    print("listening", flush=True)
    await server.serve_forever()


asyncio.run(main())

"""HTTP/1.1 as far as the service needs it: short requests, and answers that may be streams of lines."""

import asyncio
import json
import urllib.parse

# Bytes of a request's head, and of its body.
MOST_HEAD = 64 << 10
MOST_BODY = 64 << 20

# How long a client may take for one request, and how long a connection may wait for the next.
PATIENCE = 75

REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 413: "Content Too Large"}


class Refusal(Exception):
    """An answer that is not what was asked for. `field` is the one of the request that is wrong."""

    def __init__(self, status, message, field=None):
        super().__init__(message)
        self.status = status
        self.message = message if field is None else f"{field}: {message}"
        self.field = field

    def answer(self):
        answer = Answer(self.message, self.status)
        if self.field is not None:
            answer.headers = f"x-warren-field: {self.field}\r\n"
        return answer


class Request:
    def __init__(self, method, target, headers, body):
        self.method = method
        self.path = urllib.parse.urlsplit(target).path
        self.headers = headers
        self.body = body

    def json(self):
        """The body's fields; none if there is no body."""
        if not self.body.strip():
            return {}
        try:
            fields = json.loads(self.body)
        except ValueError as error:
            raise Refusal(400, f"the body is not JSON: {error}") from error
        if not isinstance(fields, dict):
            raise Refusal(400, "the body is not a JSON object")
        return fields


class Answer:
    headers = ""

    def __init__(self, value=None, status=200):
        self.status = status
        is_text = isinstance(value, str)
        self.kind = "text/plain; charset=utf-8" if is_text else "application/json"
        self.body = (value if is_text else json.dumps(value)).encode()


class Lines:
    """An answer that grows. `source` has `next()`, whose lines end with None, and `abandon()` for when nobody listens any more."""

    def __init__(self, source):
        self.source = source


class Connection:
    def __init__(self, handle, reader, writer):
        self.handle = handle
        self.reader = reader
        self.writer = writer

    async def serve(self):
        try:
            while await self._exchange():
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.TimeoutError):
            pass  # Clients come and go.
        finally:
            self.writer.close()

    async def _exchange(self):
        """One request and its answer. Says whether another may follow."""
        try:
            request = await asyncio.wait_for(self._request(), PATIENCE)
            if request is None:
                return False
            answer = await self._answer(request)
        except Refusal as refusal:
            # What follows a request that was not understood is not understood either.
            await self._send(refusal.answer(), "close")
            return False
        if isinstance(answer, Lines):
            return await self._stream(answer)
        keep = request.headers.get("connection", "").lower() != "close"
        await self._send(answer, "keep-alive" if keep else "close")
        return keep

    async def _answer(self, request):
        try:
            return await self.handle(request)
        except Refusal as refusal:
            return refusal.answer()
        except Exception as error:
            return Answer(f"{type(error).__name__}: {error}", 500)

    async def _request(self):
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise
            return None
        except asyncio.LimitOverrunError as error:
            raise Refusal(413, "the head of the request is too large") from error
        first, *rest = head.decode("latin-1").split("\r\n")
        try:
            method, target, _version = first.split(" ")
        except ValueError as error:
            raise Refusal(400, "the request line is malformed") from error
        headers = {}
        for each in filter(None, rest):
            name, _, value = each.partition(":")
            headers[name.strip().lower()] = value.strip()
        return Request(method, target, headers, await self._body(headers))

    async def _body(self, headers):
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return await self._chunks()
        length = headers.get("content-length", "0")
        if not length.isdecimal():
            raise Refusal(400, "the content length is malformed")
        self._check(int(length))
        return await self.reader.readexactly(int(length))

    async def _chunks(self):
        body = bytearray()
        while True:
            size = (await self.reader.readuntil(b"\r\n")).split(b";")[0].strip()
            try:
                length = int(size, 16)
            except ValueError as error:
                raise Refusal(400, "the size of a chunk is malformed") from error
            self._check(len(body) + length)
            body += await self.reader.readexactly(length)
            end = await self.reader.readuntil(b"\r\n")
            if length == 0:
                while end != b"\r\n":
                    end = await self.reader.readuntil(b"\r\n")
                return bytes(body)

    @staticmethod
    def _check(length):
        if not 0 <= length <= MOST_BODY:
            raise Refusal(413, f"the body is larger than {MOST_BODY} bytes")

    async def _send(self, answer, connection):
        head = (
            f"HTTP/1.1 {answer.status} {REASONS.get(answer.status, 'Error')}\r\n"
            f"content-type: {answer.kind}\r\ncontent-length: {len(answer.body)}\r\nconnection: {connection}\r\n{answer.headers}\r\n"
        )
        self.writer.write(head.encode() + answer.body)
        await self.writer.drain()

    async def _stream(self, lines):
        """Passes lines on until they end or the client is gone. A client that hangs up is the only sign that it has lost interest."""
        gone = asyncio.ensure_future(self.reader.read(1))
        sending = asyncio.ensure_future(self._send_lines(lines.source))
        try:
            await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done() and _has_more(gone):
                await sending  # It was the beginning of another request, which is not answered.
            if not sending.done():
                return False
            sending.result()
            return not gone.done()
        finally:
            lines.source.abandon()
            for each in (sending, gone):
                each.cancel()
            # How they ended no longer matters, if it did not above.
            await asyncio.gather(sending, gone, return_exceptions=True)

    async def _send_lines(self, source):
        head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
        self.writer.write(head.encode())
        while (line := await source.next()) is not None:
            self.writer.write(b"%x\r\n%s\r\n" % (len(line), line))
            await self.writer.drain()
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()


def _has_more(gone):
    return gone.done() and gone.exception() is None and gone.result() != b""

"""Names below `localhost` are this machine's. Browsers and the newest package know that; others ask the resolver, which need not."""

import socket

_getaddrinfo = socket.getaddrinfo


def _local(host, *rest, **named):
    name = host.decode() if isinstance(host, bytes) else host
    if isinstance(name, str) and name.endswith(".localhost"):
        host = "127.0.0.1"
    return _getaddrinfo(host, *rest, **named)


socket.getaddrinfo = _local

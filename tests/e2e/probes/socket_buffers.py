# Fills the receive buffers of many sockets on loopback, then tells how much they held. The argument: udp or tcp.
import socket, sys
kind, block, pairs, held = sys.argv[1], b"\xa5" * 32768, [], 0
for _ in range(800):
    if kind == "udp":
        reader, writer = socket.socket(type=socket.SOCK_DGRAM), socket.socket(type=socket.SOCK_DGRAM)
        reader.bind(("127.0.0.1", 0))
        writer.connect(reader.getsockname())
    else:
        listener = socket.create_server(("127.0.0.1", 0))
        writer = socket.create_connection(listener.getsockname())
        reader = listener.accept()[0]
        listener.close()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
    reader.setblocking(False)
    writer.setblocking(False)
    pairs.append((reader, writer))
    for _ in range(40):
        if error_of(lambda: writer.send(block)) != "done":
            break
for reader, _ in pairs:
    try:
        while part := reader.recv(65536):
            held += len(part)
    except OSError:
        pass
print(held >> 20)

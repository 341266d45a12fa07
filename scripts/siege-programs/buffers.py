# Fills the buffers of as many sockets as there can be; nobody reads.
import socket, time

held = []
while True:
    try:
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        receiver.bind(("127.0.0.1", 0))
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sender.setblocking(False)
        for _ in range(16):
            sender.sendto(b"x" * 60_000, receiver.getsockname())
        near, far = socket.socketpair()
        near.setblocking(False)
        held += [receiver, near, far]
        while True:
            near.send(b"x" * 65_536)
    except BlockingIOError:
        pass
    except OSError:
        time.sleep(0.05)

# Asks for ever new names, and opens connections that go nowhere.
import os, socket, struct

resolver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
resolver.setblocking(False)
number = 0
while True:
    number += 1
    name = b"".join(bytes([len(part)]) + part for part in (str(number).encode(), b"example", b"com")) + b"\0"
    try:
        resolver.sendto(struct.pack(">HHHHHH", number & 0xFFFF, 0x100, 1, 0, 0, 0) + name + b"\0\1\0\1", ("192.0.2.53", 53))
    except OSError:
        pass
    if number % 50 == 0:
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(("192.0.2.1", 80))
        one.close()

# Sends to ever new addresses "on this link": each would be an entry in a table that the whole
# machine shares.
import socket, struct

SO_DONTROUTE, SO_BINDTODEVICE, MSG_DONTROUTE = 5, 25, 4
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for level, option, value in ((socket.SOL_SOCKET, SO_BINDTODEVICE, b"eth0\0"), (socket.SOL_SOCKET, SO_DONTROUTE, 1)):
    try:
        sender.setsockopt(level, option, value)
    except OSError:
        pass
number = 0
while True:
    number += 1
    for first in (0x0B000000, 0xE0000000, 0xC6120000):
        address = socket.inet_ntoa(struct.pack(">I", first + number % (1 << 16)))
        for flags in (0, MSG_DONTROUTE):
            try:
                sender.sendto(b"x", flags, (address, 9))
            except OSError:
                pass

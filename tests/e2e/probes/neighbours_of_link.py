# Says of many addresses that they are on the link, in every way there is. Prints the neighbours that this made.
import socket
DONTROUTE = 4
def sockets():
    for family in (socket.AF_INET, socket.AF_INET6):
        made = socket.socket(family, socket.SOCK_DGRAM)
        error_of(lambda: made.setsockopt(socket.SOL_SOCKET, 5, 1))
        error_of(lambda: made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0"))
        error_of(lambda: made.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1))
        yield family, made
for family, made in sockets():
    for number in range(1, 200):
        near = [f"203.0.113.{number}", f"224.7.7.{number}", "255.255.255.255"]
        if family == socket.AF_INET6:
            near = [f"fe80::{number:x}", f"ff02::{number:x}", f"fd77::{number:x}"]
        for address in near:
            for flags in (0, DONTROUTE):
                to = (address, 9) if family == socket.AF_INET else (address, 9, 0, 2)
                error_of(lambda: made.sendto(b"x", flags, to))
                if family == socket.AF_INET:
                    # The link by its number, for one packet alone.
                    where = (ctypes.c_char * 12)(*b"\2\0\0\0" + b"\0" * 8)
                    error_of(lambda: made.sendmsg([b"x"], [(0, 8, bytes(where))], flags, to))
with open("/proc/net/arp") as file:
    print(len(file.readlines()) - 1)

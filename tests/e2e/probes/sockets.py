SOCKET, SOCKETPAIR = 41, 53
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
STREAM, DGRAM, RAW, SEQPACKET, PACKET = 1, 2, 3, 5, 10

def opens(*words):
    answer = call(*words)
    if isinstance(answer, int):
        os.close(answer)
        return True
    return answer

for family in range(0, 51):
    for kind in (STREAM, DGRAM, RAW, SEQPACKET):
        answer = opens(SOCKET, family, kind, 0)
        if family not in (UNIX, INET, INET6, NETLINK):
            assert answer == "EAFNOSUPPORT", (family, kind, answer)
for family in (UNIX, INET, INET6):
    for kind in (STREAM, DGRAM):
        assert opens(SOCKET, family, kind, 0) is True, (family, kind)
for protocol in range(0, 32):
    for kind in (DGRAM, RAW):
        answer = opens(SOCKET, NETLINK, kind, protocol)
        expected = True if protocol == 0 else "EPROTONOSUPPORT"
        assert answer == expected, ("netlink", protocol, kind, answer)
# Raw sockets and the old way to a packet socket are refused whatever the protocol; others may load a module.
for protocol in (0, 1, 17, 41, 255):
    for kind in (RAW, PACKET):
        assert opens(SOCKET, INET, kind, protocol) == "EPERM", (kind, protocol)
for protocol in (33, 46, 115, 132, 136, 256, 262):
    assert opens(SOCKET, INET, STREAM, protocol) == "EPROTONOSUPPORT", protocol
# The kernel reads 32 bits of the family: bits above must not hide it.
for family in (38, 40, 17):
    assert opens(SOCKET, family | 1 << 32, DGRAM, 0) == "EAFNOSUPPORT", family
for family in range(0, 51):
    pair = (ctypes.c_int * 2)()
    answer = call(SOCKETPAIR, family, STREAM, 0, pair)
    assert answer == (0 if family == UNIX else "EAFNOSUPPORT"), ("pair", family, answer)
print("ok")

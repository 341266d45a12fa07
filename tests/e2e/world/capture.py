"""Writes down every packet that leaves over an interface: one line of JSON each, without its content.

Arguments: the interface, the file. Written before anything can be sent, so that nothing is missed.
"""

import json
import socket
import struct
import sys

interface, place = sys.argv[1:]
ALL, OUTGOING = 3, 4
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(ALL))
wire.bind((interface, 0))
wire.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
out = open(place, "a", buffering=1)
out.write(json.dumps({"began": True}) + "\n")
while True:
    frame, origin = wire.recvfrom(65535)
    if origin[2] != OUTGOING:
        continue
    kind = struct.unpack("!H", frame[12:14])[0]
    line = {"kind": kind}
    if kind == 0x0800:
        header = (frame[14] & 15) * 4
        line.update(source=socket.inet_ntop(socket.AF_INET, frame[26:30]), to=socket.inet_ntop(socket.AF_INET, frame[30:34]), protocol=frame[23])
        if frame[23] in (6, 17) and len(frame) >= 14 + header + 4:
            line["port"] = struct.unpack("!H", frame[14 + header + 2 : 14 + header + 4])[0]
    elif kind == 0x86DD:
        line.update(source=socket.inet_ntop(socket.AF_INET6, frame[22:38]), to=socket.inet_ntop(socket.AF_INET6, frame[38:54]), protocol=frame[20])
        if frame[20] in (6, 17) and len(frame) >= 58:
            line["port"] = struct.unpack("!H", frame[56:58])[0]
    out.write(json.dumps(line) + "\n")

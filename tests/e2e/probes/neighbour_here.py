# Leaves a trace in every place where a neighbour might look, and stays.
import socket, time
traces = [socket.socket(socket.AF_UNIX) for _ in range(2)]
traces[0].bind("\0warren-neighbour")
traces[0].listen()
server = socket.socket()
server.bind(("127.0.0.1", 4711))
server.listen()
with open("/dev/shm/neighbour", "w") as file:
    file.write("here")
with open("/tmp/neighbour", "w") as file:
    file.write("here")
shared = call(29, 0x5741, 4096, 0o1666)
assert isinstance(shared, int), shared
queue = call(240, b"neighbour", os.O_CREAT | os.O_RDWR, 0o666, 0)
assert isinstance(queue, int), queue
queue = call(68, 0x5741, 0o1666)
assert isinstance(queue, int), queue
with open("/tmp/ready", "w"):
    pass
time.sleep(60)

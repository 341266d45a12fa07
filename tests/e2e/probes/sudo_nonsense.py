import socket, subprocess
def knock():
    agent = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Without a time limit: who knocks while many do so waits for its turn.
    agent.connect("/run/warren/sudo.sock")
    return agent
# Not a frame, a frame that is no request, a request without what it has to bring along, one that is never finished.
junk = [b"\xff" * 64, b"\x03\x00\x00\x00\x00abc", b"\x00\x00\x00\x00\x00", b"\xff\x00\x00\x00\x00"]
for bytes_ in junk:
    agent = knock()
    agent.sendall(bytes_)
    if bytes_ != junk[-1]:
        answer = agent.recv(4096)
        assert b"decode" in answer or b"read the request" in answer, answer
# More descriptors than are wanted, again and again: none of them stays with the agent.
for _ in range(50):
    agent = knock()
    socket.send_fds(agent, [b"\x03\x00\x00\x00\x00abc"], [0] * 200)
    assert agent.recv(4096)
# More at once than are let in: who comes beyond finds the door closed, and the next is served once they are gone.
crowd = [knock() for _ in range(300)]
for each in crowd:
    each.close()
for _ in range(200):
    done = subprocess.run(["sudo", "id", "-u"], capture_output=True, text=True)
    if done.returncode == 0:
        break
assert done.stdout == "0\n", done
print("ok")

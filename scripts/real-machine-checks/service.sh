# The server as a service of systemd, and what becomes of sandboxes when it ends in one way or
# another.
ends 3 'not installed' "no service yet" warren service status
says 'http://127.0.0.1:7777' "the service is installed and answers" warren service install
is enabled "it starts with the machine" systemctl is-enabled warren
says 'health +ok' "status tells of its health" warren service status
id=$(warren create)
paused=$(warren create)
# A program that writes a number again and again, to see that it never stops for long.
run_in "$id" 'cat > /tmp/beat <<"END"
import time
for n in range(100000):
    open("/tmp/n", "w").write(str(n)); time.sleep(0.1)
END
nohup python3 /tmp/beat >/dev/null 2>&1 &'
run_in "$paused" 'echo paused > /tmp/file'
warren pause "$paused"
says 'sandboxes +2 of' "status counts sandboxes" warren service status

main_pid() { systemctl show -p MainPID --value warren; }
heart() { pgrep -f '^python3 /tmp/beat'; }
beats() { local a b; a=$(run_in "$1" 'cat /tmp/n'); sleep 1; b=$(run_in "$1" 'cat /tmp/n'); [ -n "$b" ] && [ "$a" != "$b" ]; }
pid=$(heart) before=$(main_pid)
check "a program beats in a sandbox" beats "$id"
says '/warren/[^/]*/sbx' "it is in a control group of its sandbox" cat "/proc/$pid/cgroup"
check "the service is restarted" systemctl restart warren
check "it is another process" test "$(main_pid)" != "$before"
is "$pid" "the program is the same" heart
check "a paused sandbox goes on" warren resume "$paused"
is paused "with its files" run_in "$paused" 'cat /tmp/file'

kill -9 "$(main_pid)"
anew() { healthy && [ "$(main_pid)" != 0 ]; }
check "systemd starts a server again that was killed" await anew
is "$pid" "the program is the same after that" heart
check "and beats on after that" beats "$id"

check "the service is stopped" systemctl stop warren
is "$pid" "the program outlives it" heart
check "and started" systemctl start warren
check "systemd reads its units again" systemctl daemon-reload
says . "memory is still limited in its group" sh -c "grep -v max /sys/fs/cgroup/warren/*/$id/memory.max"
check "installing again keeps everything" warren service install
is "$pid" "and the program" heart
says 'active \(running\)' "status says so" warren service status
check "all are removed" sh -c 'warren ls --all -q | xargs warren rm'
nothing_left "nothing is left" /var/lib/warren/sandboxes /var/lib/warren/ranges

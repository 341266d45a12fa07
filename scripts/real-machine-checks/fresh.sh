# A machine that was just switched on: nothing that loads by itself when it is needed is loaded yet.
says '^/$|shared' "the root is mounted shared" findmnt -no PROPAGATION /
ends 1 '' "the overlay module is not loaded" grep -qw ^overlay /proc/modules
says '\bv2\b' "doctor is content, and the layout of control groups is v2" warren doctor
says 'programs left inside' "the tour of make run works" env WARREN=/usr/local/bin/warren scripts/demo --tour

setsid env WARREN=/usr/local/bin/warren scripts/demo >/var/tmp/demo.log 2>&1 </dev/null &
demo=$!
check "the server of make run answers" await healthy
says ok "it calls itself healthy" warren health
kill -INT "$demo" 2>/dev/null
wait "$demo"
says 'warren create' "it says what to type next" cat /var/tmp/demo.log
nothing_left "nothing is left of the tour" /var/lib/warren/sandboxes /var/tmp/warren-demo*

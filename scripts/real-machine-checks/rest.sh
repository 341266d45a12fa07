# The machine is shut down in the midst of work: programs that take no signal, one that is frozen,
# one that nobody is at.
installed
busy=$(warren create)
idle=$(warren create)
frozen=$(warren create)
stubborn=$(warren create)
for id in "$busy" "$idle" "$frozen" "$stubborn"; do run_in "$id" "echo $id > /tmp/file"; done
run_in "$busy" 'nohup sh -c "while :; do date >> /tmp/log; sleep 0.2; done" >/dev/null 2>&1 &'
run_in "$stubborn" 'nohup sh -c "trap : TERM INT HUP; while :; do sleep 1; done" >/dev/null 2>&1 &'
warren pause "$frozen"
echo "$busy $idle $frozen $stubborn" >"$state/sandboxes"
# What was written last before the end.
run_in "$idle" 'head -c 3000000 /dev/urandom > /tmp/late; sha256sum < /tmp/late' >"$state/late"
check "sandboxes are at work" test -s "$state/late"
date +%s >"$state/down"
sync
systemctl reboot
sleep infinity

# A server started by hand, and what people do with it.
serve_by_hand
before=$(mounts_of_init)
id=$(warren create)
check "a sandbox is made" test -n "$id"
is one "a command runs in it" run_in "$id" 'echo one | tee /tmp/file'
began=$SECONDS
is one "and another one" run_in "$id" 'cat /tmp/file'
check "without waiting for anything" test $((SECONDS - began)) -lt 15
check "its file is changed" run_in "$id" 'echo two > /tmp/file'
says 'echo two' "the log tells" warren log "$id"
check "undo" warren undo "$id"
is one "has the file of before" run_in "$id" 'cat /tmp/file'
check "redo" warren redo "$id"
is two "has the change again" run_in "$id" 'cat /tmp/file'
check "a snapshot is named" warren snapshot "$id" --name green
run_in "$id" 'rm /tmp/file; mkdir /tmp/more'
fork=$(warren fork "$id:green")
is two "a fork of it has its files" run_in "$fork" 'cat /tmp/file'
run_in "$fork" 'echo fork > /tmp/file'
check "rollback" warren rollback "$id" green
is two "has what the snapshot had, not what the fork did" run_in "$id" 'cat /tmp/file; ls -d /tmp/more 2>/dev/null'

check "stop" warren stop "$id"
says killed "why it ended is written down" warren why "$id"
check "resume" warren resume "$id"
is two "has its files" run_in "$id" 'cat /tmp/file'
check "pause" warren pause "$id"
check "and on" warren resume "$id"
echo 'from here' >/var/tmp/in
check "a file is copied in" warren cp /var/tmp/in "$id:/tmp/in"
check "and out" warren cp "$id:/tmp/in" /var/tmp/out
is 'from here' "it is the same" cat /var/tmp/out

run_in "$id" 'cd /tmp && nohup python3 -m http.server 8000 >/dev/null 2>&1 &'
url=$(warren port "$id" 8000 --link 10m)
fetch() { curl -sS --max-time 20 --retry 10 --retry-all-errors --retry-delay 1 -L --connect-to "::$(sed 's,.*//,,' <<<"$(jq -r .url /var/lib/warren/server.json)")" "$@"; }
says 'in</a>' "a port answers" fetch "${url%\?*}?${url#*\?}"
ends 22 '' "not to somebody without a key" curl -sf --max-time 20 --resolve "*:80:127.0.0.1" -H "Host: 8000-$id.localhost" "$(jq -r .url /var/lib/warren/server.json)/"
check "history goes on beside it" run_in "$id" 'echo three > /tmp/file'
check "undo beside it" warren undo "$id" --force
is two "is the file of before" run_in "$id" 'cat /tmp/file'

ends 137 '' "memory is limited" warren exec "$(warren create --memory 64m)" -- tail /dev/zero
check "all are removed" sh -c 'warren ls --all -q | xargs warren rm'
is "$before" "the machine's mounts are what they were" mounts_of_init
end_server
nothing_left "nothing is left" /var/lib/warren/sandboxes /var/lib/warren/ranges /var/lib/warren/trash

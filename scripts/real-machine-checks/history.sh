# What history says and does while programs run in the background.
# An emulated machine is slow, so that only the number of files is to be too much.
settings 'snapshots: {copy_entries: 50, copy_still_ms: 5000}'
serve_by_hand
id=$(warren create)
# Somebody else is at work all the while, and nothing of it may show.
key=$(warren keys create another --owner another)
other=$(WARREN_API_KEY=$key warren create)
theirs() { WARREN_API_KEY=$key run_in "$other" "$1"; }
theirs 'echo mine > /tmp/file; (while :; do date > /tmp/now; sleep 0.2; done) >/dev/null 2>&1 &'
check "a program runs in the background" warren exec -d "$id" -- python3 -m http.server 8000 --directory /tmp
watch='import os, time
while True: time.sleep(0.2); len(os.listdir("/tmp"))'
check "and one that watches" warren exec -d "$id" -- python3 -c "$watch"
# fate WORDS: what became of the state that a command with these words left.
fate() { warren log "$id" --json | jq -r --arg words "$1" 'first(.[] | select((.command // "") | contains($words)) | if .not_kept then "not kept" elif .after_id then "kept" else "open" end)'; }
stands() { [ "$(fate "$1")" = "$2" ]; }

run_in "$id" 'echo one > /tmp/file'
check "a command beside them is captured" await stands 'echo one' kept
run_in "$id" 'rm -rf /tmp/file && echo more > /tmp/more'
says 'rm -rf' "blame knows who removed a file" warren blame "$id" /tmp/file
check "undo" warren undo "$id"
is "one" "brings it back" run_in "$id" 'cat /tmp/file /tmp/more 2>/dev/null'
ends 1 'no /tmp/never' "blame knows what was never there" warren blame "$id" /tmp/never
says 'as the sandbox began' "and what is as it began" warren blame "$id" /etc/passwd

mkdir -p /var/tmp/tree/sub && echo leaf >/var/tmp/tree/sub/leaf
check "a directory is copied in" warren cp /var/tmp/tree "$id:/tmp/"
says 'unpack' "which is a line of the log" warren log "$id"
says 'unpack' "and of blame" warren blame "$id" /tmp/tree/sub/leaf

check "a program runs again" warren exec -d "$id" -- python3 -m http.server 8000 --directory /tmp
# More than is copied even in a pause, however long that is on a slow machine.
run_in "$id" 'mkdir /tmp/many && cd /tmp/many && seq 600 | xargs touch'
check "a change that is too large is marked" await stands 'mkdir /tmp/many' 'not kept'
run_in "$id" 'echo more > /tmp/more'
check "and so is what follows it" await stands 'echo more' 'not kept'
ends 125 'were not kept' "an undo does not skip it in silence" warren undo "$id"
run_in "$id" 'cd /tmp/many && seq 201 600 | xargs rm && echo two > /tmp/file'
check "in a pause history catches up" await stands 'echo two' kept
is 'not kept' "but for what came before that" fate 'mkdir /tmp/many'
run_in "$id" 'echo three > /tmp/file'
check "what comes then is captured" await stands 'echo three' kept
says 'ended: python3' "an undo says what it ends" warren undo "$id"
is two "and takes back one operation" run_in "$id" 'cat /tmp/file'

check "a program runs once more" warren exec -d "$id" -- python3 -m http.server 8000 --directory /tmp
check "a cell of code writes" warren code run "$id" --language bash 'echo cell > /tmp/file'
says 'code echo cell' "it is a line of the log" warren log "$id"
says 'code echo cell' "and of blame" warren blame "$id" /tmp/file
check "undo" warren undo "$id"
is two "takes it back" run_in "$id" 'cat /tmp/file'

is mine "the other owner has what was theirs" theirs 'cat /tmp/file'
says yes "and their program runs on" theirs 'test $(($(date +%s) - $(stat -c %Y /tmp/now))) -lt 30 && echo yes'
ends 125 'there is no sandbox' "and finds nothing of ours" env WARREN_API_KEY="$key" warren log "$id"
WARREN_API_KEY=$key warren rm "$other"
check "all are removed" sh -c 'warren ls --all -q | xargs warren rm'
end_server
nothing_left "nothing is left" /var/lib/warren/sandboxes /var/lib/warren/ranges /var/lib/warren/trash
settings

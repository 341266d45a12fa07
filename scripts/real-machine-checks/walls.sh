# Other walls than native: the distribution's runtimes under systemd, a shared root and cgroup v2.
settings 'backends: {enabled: [native, crun, runc, runsc]}'
installed
check "the service knows four walls" systemctl restart warren
check "and answers" await healthy
for wall in native crun runc; do
    says "^$wall +namespaces +works" "$wall works" warren backends
done
says '^runsc +user_kernel +works' "runsc works" warren backends
for wall in crun runc runsc; do
    says " $wall +version" "doctor tells the version of $wall" sh -c 'warren doctor; true'
done

# Another owner is at work all the time, and notices nothing.
other=$(warren keys create other --owner other --json | jq -r .key)
neighbour=$(WARREN_API_KEY=$other warren create)
at_neighbour() { WARREN_API_KEY=$other timeout 120 warren exec "$neighbour" -- sh -c "$1"; }
check "another owner is at work" at_neighbour 'nohup sh -c "n=0; while :; do n=\$((n+1)); echo \$n >/tmp/n; sleep 0.2; done" >/dev/null 2>&1 &'
works_on() { local a b; a=$(at_neighbour 'cat /tmp/n'); sleep 1; b=$(at_neighbour 'cat /tmp/n'); [ -n "$b" ] && [ "$a" != "$b" ]; }

# A busy machine that is emulated takes its time behind gVisor.
inside() { timeout 120 warren exec "$1" -- sh -c "$2"; }
before=$(mounts_of_init)
for wall in crun runc runsc; do
    id=$(timeout 120 warren create --backend "$wall" --memory 512m)
    check "a sandbox is made behind $wall" test -n "$id"
    is one "a command runs behind $wall" inside "$id" 'echo one | tee file'
    check "a snapshot is taken behind $wall" warren snapshot "$id" --name one
    check "a file is changed behind $wall" inside "$id" 'echo two > file'
    check "undo behind $wall" warren undo "$id"
    is one "has the file of before" inside "$id" 'cat file'
    says . "memory is limited in the group of $wall" sh -c "grep -h 536870912 /sys/fs/cgroup/warren/*/$id/memory.max"
    check "a program runs on in the background" warren exec --detach "$id" -- sleep 1000
    check "it moves to native with a program in the background" warren move "$id" --backend native
    is one "with its files" inside "$id" 'cat file'
    check "a program runs on in the background" warren exec --detach "$id" -- sleep 1000
    check "and back behind $wall" warren move "$id" --backend "$wall"
    is one "with its files again" inside "$id" 'cat file'
    check "a program runs on in the background" warren exec --detach "$id" -- sleep 1000
    running="$running $id"
done
check "the other owner works on" works_on

# gVisor has processes in snapshots.
warm=$(timeout 120 warren create --backend runsc --net none --user root --memory 512m)
count() { inside "$warm" 'cat /tmp/n || true'; }
counts() { local a b; a=$(count); sleep 3; b=$(count); [ -n "$b" ] && [ "$a" != "$b" ]; }
check "a program counts in its memory" warren exec "$warm" --detach --tag counter -- sh -c 'n=0; while :; do n=$((n+1)); echo $n >/tmp/n; sleep 0.2; done'
check "it counts" counts
check "a snapshot has its processes" timeout 120 warren snapshot "$warm" --memory --name warm
check "and they go on" counts
check "the program is ended" warren kill "$warm" tag:counter
says 'its processes go on' "a rollback brings it back" timeout 120 warren rollback "$warm" warm
check "and it counts again" counts
is true "a fork has it too" sh -c "timeout 120 warren fork $warm:warm >/tmp/fork && test -s /tmp/fork && echo true"
is "true" "it counts there" sh -c "timeout 60 warren exec \"\$(cat /tmp/fork)\" -- test -s /tmp/n && echo true"
check "both are removed" warren rm "$warm" "$(cat /tmp/fork)"

check "the service is restarted" systemctl restart warren
check "and answers again" await healthy
for id in $running; do
    is one "what ran behind a runtime runs on" inside "$id" 'cat file'
    says 'sleep 1000.*running|running.*sleep 1000' "with its program" warren ps "$id"
done
check "the other owner works on after it" works_on
is "$before" "the machine's mounts are what they were" mounts_of_init
check "all are removed" sh -c 'warren ls --all -q | xargs warren rm'
WARREN_API_KEY=$other warren rm "$neighbour"
nothing_left "nothing is left" /var/lib/warren/sandboxes /var/lib/warren/oci/*/sandboxes /var/lib/warren/ranges
settings
systemctl restart warren
await healthy

# Without a server: one sandbox for each command, and limits that the kernel keeps.
before=$(mounts_of_init)
is hello "a command runs" warren run -- echo hello
ends 7 '' "exit codes pass" warren run -- sh -c 'exit 7'
ends 127 '' "a command that is not there" warren run -- no-such-program
ends 137 'memory limit' "memory is limited" warren run --memory 48m -- tail /dev/zero
ends 2 'fork' "processes are limited" warren run --pids 16 -- sh -c 'for i in $(seq 32); do sleep 5 & done; wait'
is 1 "processors are counted" warren run --cpus 1 -- nproc
busy='import time; begun, used = time.time(), time.process_time()
while time.time() < begun + 3: pass
share = (time.process_time() - used) / (time.time() - begun)
print("held" if share < 0.7 else share)'
is held "processor time is limited" warren run --cpus 0.5 -- python3 -c "$busy"
ends 1 'No space left|quota' "bytes on disk are limited" warren run --disk 16m -- dd if=/dev/zero of=/tmp/x bs=1M count=64
many='i=0; while [ $i -lt 300 ]; do : > /tmp/$i; i=$((i+1)); done'
ends 2 'No space left|quota' "inodes are limited" warren run --disk 16m --inodes 100 -- sh -c "$many"
ends 124 'time limit' "a time limit ends it" warren run --timeout 1s -- sleep 60
id=$(warren run --keep -- sh -c 'echo kept > /tmp/file' 2>/dev/null; warren ls -q)
is kept "a sandbox that is kept has its files" warren exec "$id" -- cat /tmp/file
check "and is removed" warren rm "$id"
is "$before" "the machine's mounts are what they were" mounts_of_init
nothing_left "nothing is left" /var/lib/warren/sandboxes /var/lib/warren/ranges /var/lib/warren/trash

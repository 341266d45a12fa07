# The power goes while a command's end was just told, with `snapshots.durability: commands`.
settings 'snapshots: {durability: commands}'
installed
systemctl restart warren
check "the setting is taken" await healthy
id=$(warren create)
image=$(warren create --disk 64m)
check "the file system has nothing to do" sync
run_in "$id" 'echo first > /tmp/file'
run_in "$image" 'echo image > /tmp/file'
run_in "$id" 'echo second > /tmp/file; head -c 2000000 /dev/urandom > /tmp/late; sha256sum < /tmp/late' >/run/late
# Notes for afterwards must not put the rest on disk: they go to the second disk, past all caches.
{ echo "$id $image"; cat /run/late; } >/run/memo
truncate -s 4096 /run/memo
dd if=/run/memo of=/dev/vdb bs=4096 count=1 oflag=direct status=none
echo "machine: cut"
sleep infinity

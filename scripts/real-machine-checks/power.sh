# After a power cut.
{ read -r id image; read -r late; } < <(dd if=/dev/vdb bs=4096 count=1 iflag=direct status=none | tr -d '\0')
check "the service is there again" await healthy
for name in id image; do says 'host_restart' "$name: its certificate says why it ended" warren why "${!name}"; done
says 'switched off' "nobody shut it down" warren why "$id"
check "both are resumed" warren resume "$id" "$image"
is second "what the last command wrote is there" run_in "$id" 'cat /tmp/file'
is "$late" "and whole" run_in "$id" 'sha256sum < /tmp/late'
is image "so is what is on a disk of its own" run_in "$image" 'cat /tmp/file'
says 'echo second' "the log knows of it" warren log "$id"
check "undo after it" warren undo "$id"
check "all are removed" warren rm "$id" "$image"
nothing_left "nothing is left" /var/lib/warren/sandboxes /var/lib/warren/ranges

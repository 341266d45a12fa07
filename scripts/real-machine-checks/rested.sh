# After a clean restart of the machine.
took=$(($(awk '/^btime/ { print $2 }' /proc/stat) - $(cat "$state/down")))
echo "  the machine took $took s to go down"
# systemd alone would wait for 90 s; a busy machine takes some by itself.
check "the machine did not wait for sandboxes" test "$took" -lt 60
check "the service is there again" await healthy
read -r busy idle frozen stubborn <"$state/sandboxes"
for name in busy idle frozen stubborn; do
    says 'host_restart' "$name: its certificate says why it ended" warren why "${!name}"
    says 'shut down' "$name: and that it was done on purpose" warren why "${!name}"
done
check "all are resumed" warren resume "$busy" "$idle" "$frozen" "$stubborn"
for name in busy idle frozen stubborn; do
    is "${!name}" "$name: its files are kept" run_in "${!name}" 'cat /tmp/file'
done
is "$(cat "$state/late")" "what was written last is whole" run_in "$idle" 'sha256sum < /tmp/late'
check "all are removed" warren rm "$busy" "$idle" "$frozen" "$stubborn"
nothing_left "nothing is left" /var/lib/warren/sandboxes /var/lib/warren/ranges

# Ratios to bubblewrap and to the engine on this kernel, where there is one hierarchy of control groups.
# An emulated machine is slow, and a bound of this page is no bound here: the figures are for reading.
systemctl stop warren 2>/dev/null
for case in run_true http_create http_exec snapshot_idle rollback creates_per_second; do
    measured=$(./warren-bench --quick --warren /usr/local/bin/warren --data-dir /var/lib/warren-speed --only "$case" 2>&1)
    printf '%s\n' "$measured"
    says 'bubblewrap|engine' "$case is measured" echo "$measured"
done
rm -rf /var/lib/warren-speed

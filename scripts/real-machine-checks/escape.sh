# The probes of the black-box suite, with this kernel and these mounts. All of them in one sandbox,
# as its user and as its root.
echo host >/srv/canary
mkdir -p /srv/shared/below
echo shared >/srv/shared/file
core=$(cat /proc/sys/kernel/core_pattern)
id=$(warren run --keep --mount /mnt/probes:/probes:ro --mount /srv/shared:/shared:ro -- true 2>/dev/null; warren ls -q)

probe() { timeout 100 warren exec "$id" --user "$1" -- python3 -c "$(cat probes/prelude.py "probes/$2.py")" "${@:3}"; }
for user in user root; do
    # Not even root may write what another has left in a place for all.
    warren exec "$id" --user root -- sh -c 'rm -rf /tmp/*'
    is ok "as $user: links of /proc lead only inside" probe "$user" proc_links /srv/canary
    is ok "as $user: nothing can be mounted" probe "$user" mounts
    is ok "as $user: settings of the machine cannot be written" probe "$user" host_settings
    is ok "as $user: devices cannot be made or found" probe "$user" devices
    is ok "as $user: control groups cannot be reached" probe "$user" control_groups
    is ok "as $user: no namespace can be made or entered" probe "$user" namespaces
    is ok "as $user: denied calls fail and the caller lives" probe "$user" denied_calls
    is ok "as $user: only plain sockets exist" probe "$user" sockets
    is ok "as $user: the agent's binary cannot be written" probe "$user" agent_binary
    is ok "as $user: capabilities of files are worth nothing" probe "$user" file_capabilities
    is ok "as $user: nothing tells of the machine" probe "$user" host_facts "$(hostname)" "$(cat /proc/cmdline)"
done
is "$core" "the machine's core pattern is what it was" cat /proc/sys/kernel/core_pattern
is '1000 1000 1000' "set-id programs gain nothing" warren exec "$id" --user root -- sh -c \
    'cp /usr/bin/python3 /tmp/suid; chmod 6755 /tmp/suid; exec setpriv --reuid 1000 --regid 1000 --clear-groups /tmp/suid -c "import os; print(*os.getresuid())"'
rights='grep -E "^(Seccomp|NoNewPrivs|CapBnd|CapAmb):" /proc/self/status | tr -s "\t " " " | tr "\n" ";"'
is 'CapBnd: 00000000000000fb;CapAmb: 0000000000000000;NoNewPrivs: 1;Seccomp: 2;' "rights are bounded" warren exec "$id" --user root -- sh -c "$rights"

# What the machine mounts later is the machine's own.
mount -t tmpfs late /srv/shared/below
echo late >/srv/shared/below/late
is '' "a mount below a shared directory does not appear inside" warren exec "$id" -- ls /shared/below
ends 1 'Read-only' "read-only means all that is below" warren exec "$id" --user root -- touch /shared/below/x
umount /srv/shared/below
is shared "the shared directory itself is there" warren exec "$id" -- cat /shared/file
is 0 "no mount of a sandbox is in the machine's table" grep -c -e sbx -e upper- /proc/1/mountinfo

# What only the machine's root may read of /usr is not inside, however new it is.
(umask 077 && mkdir /usr/local/share/closed && echo secret >/usr/local/share/closed/inner && echo secret >/usr/local/share/private)
rooted=$(warren run --keep --user root -- true 2>/dev/null; warren ls -q | grep -v "$id")
for sandbox in "$id" "$rooted"; do
    is '' "root inside reads no private file of the machine's /usr" warren exec "$sandbox" --user root -- sh -c \
        'exec 2>/dev/null; cd /usr/local/share; cat private closed/inner; chmod 644 private; cp private /tmp/x; cat private /tmp/x; ls closed'
done
is '' "and a new sandbox does not see the name" warren exec "$rooted" -- sh -c 'ls /usr/local/share | grep -e private -e closed; true'
rm -rf /usr/local/share/closed /usr/local/share/private
check "the sandbox of root is removed" warren rm "$rooted"
check "the sandbox is removed" warren rm "$id"
nothing_left "nothing is left of the probes" /var/lib/warren/sandboxes /var/lib/warren/ranges

# The service goes, data stays.
installed
kept=$(warren create)
run_in "$kept" 'echo kept > /tmp/file'
warren stop "$kept" >/dev/null
says 'still in /var/lib/warren' "the service is removed and says what stays" warren service uninstall
ends 3 'not installed' "it is not there any more" warren service status
ends 4 '' "nor does systemd know it" systemctl status warren
serve_by_hand
check "what it kept is found by another server" warren resume "$kept"
is kept "with its files" run_in "$kept" 'cat /tmp/file'
warren rm "$kept"
end_server
nothing_left "nothing is left of anybody" /var/lib/warren/sandboxes /var/lib/warren/ranges /var/lib/warren/trash
is 0 "no namespace of a network is left" sh -c 'lsns -t net -n -o NPROCS,COMMAND | grep -c -v -e init -e systemd'
is '' "no rule of the network is left" sh -c 'ip rule | grep -i prohibit; nft list tables | grep warren'
check "no server is left" sh -c '! pgrep -x warren'

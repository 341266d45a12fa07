# The machine inside: writing to /usr and installing packages, as the user of an ordinary sandbox.
serve_by_hand
id=$(warren create)
is '' "a new sandbox has no layer on /usr" sh -c "ls -d /var/lib/warren/sandboxes/$id/upper-1 2>/dev/null"
is /usr/local/bin/x "the user writes there with sudo" run_in "$id" 'sudo touch /usr/local/bin/x; ls /usr/local/bin/x'
check "and nothing of it is on the machine" test ! -e /usr/local/bin/x
is /root "root's home is root's" warren exec "$id" --user root -- sh -c 'echo $HOME'
check "a snapshot is taken" warren snapshot "$id" --name before
mkdir -p /var/tmp/deb/DEBIAN /var/tmp/deb/usr/bin
printf 'Package: warren-greeting\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\nDescription: greets\n' >/var/tmp/deb/DEBIAN/control
printf '#!/bin/sh\necho hello\n' >/var/tmp/deb/usr/bin/warren-greeting
chmod 755 /var/tmp/deb/usr/bin/warren-greeting
check "a package is built" dpkg-deb --build --root-owner-group /var/tmp/deb /var/tmp/greeting.deb
check "it is copied in" warren cp /var/tmp/greeting.deb "$id:/tmp/greeting.deb"
check "apt-get installs it" run_in "$id" 'sudo apt-get install -y /tmp/greeting.deb >/tmp/log 2>&1 || { cat /tmp/log; false; }'
is hello "its program runs" run_in "$id" warren-greeting
is 'install ok installed' "dpkg knows it" run_in "$id" "dpkg-query -W -f '\${Status}' warren-greeting"
says warren-greeting "the history knows it too" warren diff "$id:before" "$id"
fork=$(warren fork "$id")
is hello "and so does a fork" run_in "$fork" warren-greeting
check "stop" warren stop "$id"
check "resume" warren resume "$id"
is hello "a new life has it" run_in "$id" 'warren-greeting; sudo touch /usr/local/bin/y'
check "all are removed" warren rm "$id" "$fork"
end_server
nothing_left "nothing is left" /var/lib/warren/sandboxes /var/lib/warren/ranges /var/lib/warren/trash

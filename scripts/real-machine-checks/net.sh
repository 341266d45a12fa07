# Where sandboxes may go, through the machine's one card. Each is asked for the same page.
is 'hello from outside' "the machine itself reaches the outside" curl -s --max-time 20 "$outside"
serve_by_hand
page() { timeout 60 warren exec "$1" -- curl -sf --max-time 8 "${2:-$outside}"; }
refused() { ! page "$@"; }

closed=$(warren create --net none)
check "none: nothing is reached" refused "$closed"
open=$(warren create --net public)
is 'hello from outside' "public: the outside is reached" page "$open"
check "public: the machine itself is not" refused "$open" "$(jq -r .url /var/lib/warren/server.json)/v1/health"
check "public: private networks are not" refused "$open" http://10.0.0.1/
some=$(warren create --net allow=11.22.33.44)
is 'hello from outside' "allow: what is named is reached" page "$some"
check "allow: what is not named is not" refused "$some" http://11.22.33.1/
check "a policy is changed" warren net set "$open" allow=192.0.2.1
check "and holds at once" refused "$open"
check "and back" warren net set "$open" public
is 'hello from outside' "the outside is reached again" page "$open"

# A network manager that takes every card it sees, as on many a cloud machine.
cat >/etc/systemd/network/90-all.network <<'END'
[Match]
Type=ether
[Network]
DHCP=yes
LinkLocalAddressing=yes
IPv6AcceptRA=yes
END
networkctl reload
late=$(warren create --net public)
is 'hello from outside' "a sandbox made while networkd wants all cards has its network" page "$late"
settled() { ! networkctl --no-legend list | grep 'wrn.*\(pending\|initialized\)'; }
await settled
is unmanaged "networkd leaves its link alone" sh -c "networkctl --no-legend list | awk '/ wrn/ { print \$NF }' | sort -u"
is 'hello from outside' "and one that was there before still has it" page "$open"
rm /etc/systemd/network/90-all.network
networkctl reload

# From one sandbox to another.
own='import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("11.22.33.44", 9)); print(s.getsockname()[0])'
address=$(warren exec "$open" -- python3 -c "$own")
warren exec "$open" -- sh -c 'cd /tmp && python3 -m http.server --bind 0.0.0.0 8080 >/dev/null 2>&1 &'
check "a service answers where it runs" await page "$open" "http://$address:8080/"
check "and another sandbox does not reach it" refused "$late" "http://$address:8080/"
check "nor one that may go to named places only" refused "$some" "http://$address:8080/"
check "all are removed" sh -c 'warren ls --all -q | xargs warren rm'
end_server
nothing_left "no link, no namespace and no file is left" /var/lib/warren/sandboxes /var/lib/warren/ranges

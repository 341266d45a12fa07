# The first ten minutes of somebody who has the package of a release and its README: install, service,
# first sandbox, E2B's protocol, undo, and everything gone again. The blocks of the pages that are
# marked for this machine run as they are written.
systemctl is-active --quiet warren && warren service uninstall >/dev/null
mv /usr/local/bin/warren /var/tmp/warren-aside
rm -rf /etc/warren /var/lib/warren
hash -r
here=$PWD
as_written() { DOCS_PATIENCE=600 python3 "$here/scripts/test-docs" --here "$@"; }
mkdir -p /var/tmp/stranger
cp release/*.deb /var/tmp/stranger/
cd /var/tmp/stranger || exit 1

says 'blocks as written' "the README installs the package, and doctor is content" as_written "$here/README.md"
check "the program is there" test -x /usr/bin/warren
ends 3 inactive "nothing was started" systemctl is-active warren
ends 1 disabled "nor will be" systemctl is-enabled warren
says 'as a Debian package' "it knows how it came" warren upgrade --check
says 'ExecStart=/usr/bin/warren' "the unit is there" systemctl cat warren
is hello "the first sandbox needs no server" warren run -- echo hello
says 'blocks as written' "the guide installs the service, asks it, and removes it" as_written "$here/docs/operating.md"

settings
says 'http://127.0.0.1:7777' "the service runs" warren service install
id=$(warren create)
run_in "$id" 'echo work > notes'
run_in "$id" 'rm notes'
check "undo" warren undo "$id"
is work "brings a file back" run_in "$id" 'cat notes'

key=$(jq -r .key /var/lib/warren/server.json)
e2b() { timeout 60 curl -sS -H "X-API-Key: $key" -H 'Content-Type: application/json' "$@"; }
made=$(e2b http://127.0.0.1:7777/e2b/v2/sandboxes -d '{"templateID": "base", "timeout": 300}')
box=$(jq -r .sandboxID <<<"$made")
inside() {
    timeout 60 curl -sS -H "E2b-Sandbox-Id: $box" -H 'E2b-Sandbox-Port: 49983' -H "X-Access-Token: $(jq -r .envdAccessToken <<<"$made")" "$@"
}
says "$box" "E2B's protocol makes a sandbox that warren lists" warren ls
inside -F 'file=@/etc/hostname' "http://127.0.0.1:7777/files?path=brought&username=user" >/dev/null
is "$(cat /etc/hostname)" "a file that came by it is there" run_in "$box" 'cat brought'
is "$(cat /etc/hostname)" "and goes back" inside "http://127.0.0.1:7777/files?path=brought&username=user"
is 204 "and ends it" e2b -o /dev/null -w '%{http_code}' -X DELETE "http://127.0.0.1:7777/e2b/sandboxes/$box"
check "all are removed" sh -c 'warren ls --all -q | xargs warren rm'

check "the package is removed" dpkg --remove warren
ends 4 '' "its service with it" systemctl status warren
check "no program is left" test ! -e /usr/bin/warren
is warren.yaml "settings stay" ls /etc/warren
check "purged" dpkg --purge warren
ends 2 '' "they do not" ls /etc/warren
check "the data of sandboxes is nobody's to throw away" test -e /var/lib/warren/catalog.db
rm -rf /var/lib/warren
cd "$here" || exit 1
mv /var/tmp/warren-aside /usr/local/bin/warren

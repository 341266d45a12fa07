# The words that checks are made of.

export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
unset WARREN_DATA_DIR WARREN_URL WARREN_API_KEY
# On the disk, so that nothing is forgotten when the machine goes down.
state=/var/lib/checks
outside=http://11.22.33.44/

count() { cat "$state/$1" 2>/dev/null | wc -l; }

# Notes how a check ended.
note() {
    echo "$2" >>"$state/$1"
    if [ "$1" = passed ]; then
        printf '  passed: %s\n' "$2"
    else
        printf '  FAILED: %s\n' "$2"
        printf '%s\n' "$3" | tail -n 25 | sed 's/^/          | /'
    fi
}

# check NAME COMMAND...: it ends with 0.
check() { ends 0 '' "$@"; }

# says PATTERN NAME COMMAND...: it ends with 0, and a line of its output has the pattern.
says() { ends 0 "$@"; }

# ends CODE PATTERN NAME COMMAND...
ends() {
    local code=$1 pattern=$2 name=$3 found ended
    shift 3
    # No answer within two minutes is an answer.
    found=$(limited "$@" 2>&1 </dev/null)
    ended=$?
    if [ "$ended" = "$code" ] && grep -qE -- "$pattern" <<<"$found"; then
        note passed "$name"
    else
        note failed "$name" "exit code $ended, wanted $code and /$pattern/: $found"
    fi
}

# Functions of ours limit themselves.
limited() {
    if [ "$(type -t "$1")" = function ]; then "$@"; else timeout 120 "$@"; fi
}

# is WANTED NAME COMMAND...: exactly this is its output.
is() {
    local wanted=$1 name=$2 found
    shift 2
    found=$(limited "$@" 2>&1 </dev/null)
    if [ "$found" = "$wanted" ]; then note passed "$name"; else note failed "$name" "wanted '$wanted', found: $found"; fi
}

# Waits, for as long as a busy machine may take, until a command ends with 0.
await() {
    local until=$((SECONDS + 180))
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$until" ] || return 1
        sleep 0.2
    done
}

# run_in ID COMMAND: by a shell in a sandbox.
run_in() { timeout 60 warren exec "$1" -- sh -c "$2"; }

healthy() { timeout 20 warren health; }

# settings [LINE...]: what servers here are set to.
settings() {
    mkdir -p /etc/warren
    printf '%s\n' 'server: {prepared_networks: 2}' 'network: {prepared: 2}' "$@" >/etc/warren/warren.yaml
}

# The service is there; a part that is run by itself installs it.
installed() { systemctl is-active --quiet warren || warren service install >/dev/null; }

# A server that nobody looks after, on the data directory that is set.
serve_by_hand() {
    setsid warren serve --listen 127.0.0.1:0 "$@" >/var/tmp/serve.log 2>&1 </dev/null &
    server=$!
    check "a server starts" await healthy
}

end_server() {
    local code
    kill "$server"
    wait "$server"
    code=$?
    check "the server ends" test "$code" = 0
}

# The parts of this machine that sandboxes of all data directories hold, one line each. Empty
# without any.
remains() {
    find /sys/fs/cgroup/warren -mindepth 2 -type d -name 'sbx*' 2>/dev/null
    grep -l warren/ /proc/[0-9]*/cgroup 2>/dev/null | while read -r file; do
        grep -q '/warren/[^/]*/sbx' "$file" 2>/dev/null && tr '\0' ' ' <"${file%cgroup}cmdline" 2>/dev/null
    done
    # A server has some ready that are nobody's yet.
    if pgrep -x warren >/dev/null; then ip -o link | grep -o 'warren:[^ ]*sbx.*'; else ip -o link | grep -o 'wrn[^:@]*'; fi
    ls "$@" 2>/dev/null | grep sbx
    losetup -l -n -O BACK-FILE
    # In nobody's table of mounts, PID 1's least of all.
    grep -hE 'sbx|upper-|/(layers|templates)/' /proc/1/mountinfo
    true
}

# nothing_left NAME [DIRECTORY...]: removal goes on in the background, so it is waited for.
nothing_left() {
    local name=$1
    shift
    gone() { [ -z "$(remains "$@")" ]; }
    await gone "$@"
    is '' "$name" remains "$@"
}

mounts_of_init() { sort /proc/1/mountinfo | cut -d ' ' -f 5- | sed 's/ shared:[0-9]*//'; }

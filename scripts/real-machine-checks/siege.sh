# One owner attacks while another works. An emulated machine says little about milliseconds, so a command may take long; nothing may
# break, and neither the server's memory nor the machine's own tables may grow.
held() { SIEGE_RATIO=30 timeout 900 python3 scripts/siege /usr/local/bin/warren 2 "$1" 2>&1; }
for attack in agent stopped neighbours filters buffers tables processes memory lookups silent keys output; do
    says '0 not held$' "$attack: another owner's work goes on" held "$attack"
done

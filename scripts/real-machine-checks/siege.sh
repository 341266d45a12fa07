# One owner attacks while another works. An emulated machine says little about milliseconds, so a command may take long; nothing may
# break, and neither the server's memory nor the machine's own tables may grow.
attacks=(agent stopped neighbours filters buffers tables processes memory lookups silent keys output)
held() { SIEGE_RATIO=30 timeout 900 python3 scripts/siege /usr/local/bin/warren 2 "${attacks[@]}" 2>&1; }
says 'siege: 13 attacks, 0 not held$' "attackers do not stop another owner's work" held

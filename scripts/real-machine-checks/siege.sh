# One owner attacks while another works. An emulated machine says little about milliseconds, so a
# command may take long; nothing may break, and neither the server's memory nor the machine's own
# tables may grow.
attacks=(agent neighbours filters buffers tables memory silent output)
held() { SIEGE_RATIO=30 timeout 900 python3 scripts/siege /usr/local/bin/warren 1 "${attacks[@]}" 2>&1; }
says 'siege: 9 attacks, 0 not held$' "attackers do not stop another owner's work" held

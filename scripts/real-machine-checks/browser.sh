# A browser in a sandbox. Its template was built outside, since nothing can be fetched in here.
installed
check "the service is stopped" systemctl stop warren
mkdir -p /var/lib/warren/templates
check "the template is put where templates are" tar -C /var/lib/warren/templates -xf browser.tar
check "the service is started" systemctl start warren
check "and answers" await healthy
says '^browser ' "it knows the template" warren template ls
key=$(warren keys create browser --json | jq -r .key)
ask() {
    curl -s --max-time 300 "$1" -H "Authorization: Bearer $key" -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
        -H 'MCP-Protocol-Version: 2025-11-25' -d "$2"
}
made=/var/tmp/made
ask http://127.0.0.1:7777/v1/sessions '{"client": "check", "type": "playwright_mcp", "sandbox": {"memory_mib": 1024, "pids": 256}}' >"$made"
is ready "a session waits for its browser" jq -r .provision.state "$made"
box=$(jq -r .sandbox_id "$made")
address=$(jq -r .provision.url "$made")
tool() { ask "$address" "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"tools/call\", \"params\": {\"name\": \"$1\", \"arguments\": $2}}"; }
run_in "$box" 'echo "<title>Inside</title><h1>One page</h1>" >page.html'
check "a page is served in it" warren exec --detach "$box" -- python3 -m http.server 8000
says 'Inside' "it is opened" tool browser_navigate '{"url": "http://127.0.0.1:8000/page.html"}'
says 'One page' "and read" tool browser_snapshot '{}'
says 'image/(png|jpeg)' "and pictured" tool browser_take_screenshot '{}'
says '403' "a private address is refused" tool browser_navigate '{"url": "http://10.0.0.1/"}'
check "undo" warren undo "$box"
says 'about:blank' "has a browser again, with an empty page" tool browser_snapshot '{}'
check "it is removed" warren rm "$box"

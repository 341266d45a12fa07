# Agents' own door: MCP over HTTP and over standard input, against the service.
installed
check "the service answers" await healthy
key=$(warren keys create agent --json | jq -r .key)
box=$(warren create)
address=http://127.0.0.1:7777/mcp/$box
call() {
    curl -s "$address" -H "Authorization: Bearer $key" -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
        -H 'MCP-Protocol-Version: 2025-11-25' -d "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"tools/call\", \"params\": {\"name\": \"$1\", \"arguments\": $2}}"
}
says 'one.*#[0-9]' "a call over HTTP is an entry of the journal" call bash '{"command": "echo one | tee file"}'
says '#[0-9]' "another changes a file" call bash '{"command": "echo two >file"}'
says . "undo takes it back" call undo '{}'
is one "the file is what it was" run_in "$box" 'cat file'
is 401 "nobody gets in without a key" curl -s -o /dev/null -w '%{http_code}' "$address" -H 'Content-Type: application/json' -d '{}'
is 403 "nor a page of another site" curl -s -o /dev/null -w '%{http_code}' "$address" -H "Authorization: Bearer $key" \
    -H 'Origin: http://evil.example' -H 'Content-Type: application/json' -d '{}'
over_stdio() {
    {
        printf '%s\n' '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "check", "version": "1"}}}' \
            '{"jsonrpc": "2.0", "method": "notifications/initialized"}' \
            '{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "bash", "arguments": {"command": "cat file"}}}'
        sleep 15
    } | timeout 120 warren mcp --sandbox "$box"
}
says '"id":2.*one' "the same over standard input" over_stdio
says 'claude mcp add' "a client is told of it in one line" warren mcp --print claude
ends 125 'warren template build browser' "a browser says what is missing" warren create --type playwright_mcp
check "it is removed" warren rm "$box"

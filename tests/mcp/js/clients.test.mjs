// The official TypeScript packages, the first line and the second, in both generations of the protocol.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Client as Newer, StreamableHTTPClientTransport as NewerHttp } from '@modelcontextprotocol/client'
import { StdioClientTransport as NewerStdio } from '@modelcontextprotocol/client/stdio'
import { Client as Older } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport as OlderStdio } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport as OlderHttp } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

const { WARREN, WARREN_URL, WARREN_API_KEY, PATH, HOME } = process.env
const who = { name: 'test', version: '1' }
const url = new URL(`${WARREN_URL}/mcp`)
const headers = { requestInit: { headers: { Authorization: `Bearer ${WARREN_API_KEY}` } } }
const program = { command: WARREN, args: ['mcp'], env: { PATH, HOME, WARREN_URL, WARREN_API_KEY } }
const newest = { versionNegotiation: { mode: 'auto' } }

const ways = {
    'sdk over HTTP': () => [new Older(who), new OlderHttp(url, headers)],
    'sdk by a program': () => [new Older(who), new OlderStdio(program)],
    'client over HTTP': () => [new Newer(who), new NewerHttp(url, headers)],
    'client by a program': () => [new Newer(who), new NewerStdio(program)],
    'client over HTTP, without a handshake': () => [new Newer(who, newest), new NewerHttp(url, headers)],
    'client by a program, without a handshake': () => [new Newer(who, newest), new NewerStdio(program)],
}

for (const [name, make] of Object.entries(ways)) {
    test(`${name}: a change is made, seen and taken back`, async () => {
        const [client, transport] = make()
        await client.connect(transport)
        const use = (tool, input) => client.callTool({ name: tool, arguments: input })
        const text = result => result.content.filter(block => block.type === 'text').map(block => block.text).join('\n')
        assert.equal((await client.listTools()).tools.length, 16)
        const sandbox = (await use('sandbox', { action: 'create' })).structuredContent.sandbox_id
        const wrote = await use('write', { sandbox, path: '/home/user/a', content: 'one\n' })
        await use('bash', { sandbox, command: 'echo two > /home/user/a' })
        assert.match(text(await use('read', { sandbox, path: '/home/user/a' })), /two/)
        await use('undo', { sandbox, to: String(wrote._meta['warren/entry']) })
        assert.match(text(await use('read', { sandbox, path: '/home/user/a' })), /one/)
        const read = await client.readResource({ uri: `warren://${sandbox}/files/home/user/a` })
        assert.equal(read.contents[0].text, 'one\n')
        assert.equal((await use('read', { sandbox, path: '/nothing' })).isError, true)
        await use('sandbox', { action: 'remove', sandbox })
        await client.close()
    })
}

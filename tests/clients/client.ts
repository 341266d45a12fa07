// A client whose types are generated from the OpenAPI document: it makes a sandbox, works in it and
// follows what it does, against a server that the environment names. What it assumes of the types
// is checked when it is compiled.

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import createClient from 'openapi-fetch'
import WebSocket from 'ws'
import type { components, paths } from './warren.js'

type Schemas = components['schemas']
type ProcessEvent = Schemas['ProcessEvent']
type Event<Name extends ProcessEvent['event']> = Extract<ProcessEvent, { event: Name }>

const url = process.env.WARREN_URL ?? ''
const headers = { Authorization: `Bearer ${process.env.WARREN_API_KEY}` }
const warren = createClient<paths, 'application/json'>({ baseUrl: url, headers })

// Nothing is needed to make a sandbox, and little for anything else.
const nothing: Schemas['CreateSandbox'] = {}
const acquire: Schemas['AcquireSession'] = { client: 'typed' }
const exec: Schemas['Exec'] = { command: 'true' }
const tool: Schemas['ToolCall'] = { params: { path: '.' } }

const { data: sandbox, error } = await warren.POST('/v1/sandboxes', { body: nothing })
assert.ok(sandbox, JSON.stringify(error))
const path = { sandbox_id: sandbox.sandbox_id }
after(() => warren.DELETE('/v1/sandboxes/{sandbox_id}', { params: { path } }))

/** The events of an answer, each with its data. */
async function* events(stream: ReadableStream<Uint8Array>): AsyncGenerator<ProcessEvent> {
  let rest = ''
  const text = new TextDecoder()
  for await (const piece of stream) {
    const blocks = (rest + text.decode(piece, { stream: true })).split('\n\n')
    rest = blocks.pop() ?? ''
    for (const block of blocks) {
      const fields = new Map(block.split('\n').map((line) => line.split(/: ?(.*)/s, 2) as [string, string]))
      const data = fields.get('data')
      if (data !== undefined) yield { event: fields.get('event'), data: JSON.parse(data) } as ProcessEvent
    }
  }
}

test('a command is run to its end', async () => {
  const body = { ...exec, command: ['sh', '-c', 'echo out; echo err >&2; exit 3'] }
  const { data } = await warren.POST('/v1/sandboxes/{sandbox_id}/exec', { params: { path }, body })
  assert.deepEqual([data?.stdout, data?.stderr, data?.exit_code, data?.cause], ['out\n', 'err\n', 3, 'exited'])
})

test('a command is followed, event by event', async () => {
  const { data } = await warren.POST('/v1/sandboxes/{sandbox_id}/exec', {
    params: { path },
    body: { command: 'for i in 1 2 3; do echo $i; sleep 0.1; done; echo done >&2' },
    headers: { Accept: 'text/event-stream' },
    parseAs: 'stream',
  })
  assert.ok(data)
  const seen: ProcessEvent[] = []
  for await (const event of events(data)) seen.push(event)
  const written = (name: 'stdout' | 'stderr') =>
    seen.filter((one): one is Event<typeof name> => one.event === name).map((one) => one.data.data).join('')
  assert.deepEqual([written('stdout'), written('stderr')], ['1\n2\n3\n', 'done\n'])
  const [first, last] = [seen[0], seen.at(-1)]
  assert.ok(first?.event === 'started' && first.data.pid > 0)
  assert.ok(last?.event === 'exited' && last.data.exit_code === 0)
})

test('a process is talked to over a web socket', async () => {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/sandboxes/${path.sandbox_id}/stream`, 'warren.v1', { headers })
  const opening: Schemas['StreamOpening'] = { start: { command: ['cat'] } }
  const closing: Schemas['StreamCommand'] = { type: 'stdin_close' }
  let output = ''
  const exited = await new Promise<Schemas['StreamNotice']>((resolve, reject) => {
    socket.on('error', reject)
    socket.on('open', () => socket.send(JSON.stringify(opening)))
    socket.on('message', (message: Buffer, binary) => {
      if (binary) {
        output += message.subarray(1).toString()
        socket.send(JSON.stringify(closing))
        return
      }
      const notice = JSON.parse(message.toString()) as Schemas['StreamNotice']
      if (notice.type === 'started') socket.send(Buffer.from('to and fro'))
      else resolve(notice)
    })
  })
  assert.equal(output, 'to and fro')
  assert.ok(exited.type === 'exited' && exited.exit_code === 0)
})

test('a problem has a code and the field that is wrong', async () => {
  const { error, response } = await warren.POST('/v1/sandboxes', { body: { memory_mib: 1 } })
  assert.equal(response.status, 422)
  const problem = error as Schemas['Problem'] | undefined
  assert.deepEqual([problem?.code, problem?.field], ['invalid_value', 'memory_mib'])
})

test('tools and sessions are typed as well', async () => {
  const { data: told } = await warren.POST('/v1/sandboxes/{sandbox_id}/tools/{tool}', {
    params: { path: { ...path, tool: 'ls' } },
    body: tool,
  })
  assert.equal(told?.is_error, false)
  const { data: session } = await warren.POST('/v1/sessions/attach', { body: { ...acquire, ...path } })
  assert.deepEqual([session?.state, session?.sandbox_id], ['active', path.sandbox_id])
})

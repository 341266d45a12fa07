// The published JavaScript package, unmodified, against a server that the environment names.

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { randomUUID } from 'node:crypto'
import { CommandExitError, FilesystemEventType, FileType, NotFoundError, Sandbox, Template } from 'e2b'
import { Sandbox as Coder } from '@e2b/code-interpreter'

const made = []
const make = async (options = {}, of = Sandbox) => {
  const sandbox = await of.create({ timeoutMs: 300_000, ...options })
  made.push(sandbox)
  return sandbox
}
after(() => Promise.all(made.map((sandbox) => sandbox.kill())))

const until = async (what, limitMs = 30_000) => {
  for (const end = Date.now() + limitMs; ; await new Promise((resolve) => setTimeout(resolve, 50))) {
    const answer = await what()
    if (answer) return answer
    assert.ok(Date.now() < end, `not within ${limitMs} ms: ${what}`)
  }
}

test('a sandbox is made, found, used and ended', async () => {
  const mark = randomUUID()
  const sandbox = await make({ metadata: { mark, 'a b': 'c&d' }, envs: { COLOUR: 'blue' } })
  const said = await sandbox.commands.run('echo "$COLOUR"; echo bad >&2; pwd')
  assert.deepEqual([said.stdout, said.stderr, said.exitCode], ['blue\n/home/user\n', 'bad\n', 0])
  const pages = Sandbox.list({ query: { metadata: { mark, 'a b': 'c&d' } } })
  assert.deepEqual((await pages.nextItems()).map((one) => one.sandboxId), [sandbox.sandboxId])
  assert.equal(pages.hasNext, false)
  const info = await sandbox.getInfo()
  assert.equal(info.state, 'running')
  assert.equal(info.metadata.mark, mark)
  const same = await Sandbox.connect(sandbox.sandboxId)
  assert.equal(await same.isRunning(), true)
  assert.equal(await sandbox.kill(), true)
  assert.equal(await sandbox.isRunning(), false)
  assert.equal(await sandbox.kill(), false)
  await assert.rejects(Sandbox.connect(sandbox.sandboxId), NotFoundError)
})

test('commands fail, stream, take input and are killed', async () => {
  const sandbox = await make()
  await assert.rejects(sandbox.commands.run('exit 7'), (error) => error instanceof CommandExitError && error.exitCode === 7)
  let told = ''
  await sandbox.commands.run('for i in 1 2 3; do echo $i; done', { onStdout: (text) => void (told += text) })
  assert.equal(told, '1\n2\n3\n')
  const cat = await sandbox.commands.run('cat', { background: true, stdin: true })
  await sandbox.commands.sendStdin(cat.pid, 'hello\n')
  await sandbox.commands.closeStdin(cat.pid)
  assert.equal((await cat.wait()).stdout, 'hello\n')
  const sleeper = await sandbox.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
  assert.ok((await sandbox.commands.list()).some((process) => process.pid === sleeper.pid))
  assert.equal(await sandbox.commands.kill(sleeper.pid), true)
  await assert.rejects(sleeper.wait(), CommandExitError)
  assert.equal(await sandbox.commands.kill(sleeper.pid), false)
  const waiting = await sandbox.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
  const lost = assert.rejects(waiting.wait())
  await Sandbox.kill(sandbox.sandboxId)
  await lost
})

test('files are written, read, listed, moved and watched', async () => {
  const sandbox = await make()
  await sandbox.files.write('notes/today.txt', 'grüß dich')
  assert.equal(await sandbox.files.read('notes/today.txt'), 'grüß dich')
  await sandbox.files.write([
    { path: 'many/a', data: 'A' },
    { path: 'many/b', data: new Blob(['B']) },
  ])
  const names = (await sandbox.files.list('many')).map((entry) => [entry.name, entry.type])
  assert.deepEqual(names, [['a', FileType.FILE], ['b', FileType.FILE]])
  assert.deepEqual(Array.from(await sandbox.files.read('many/b', { format: 'bytes' })), [66])
  assert.equal(await sandbox.files.makeDir('dir/below'), true)
  assert.equal(await sandbox.files.makeDir('dir/below'), false)
  await assert.rejects(sandbox.files.read('missing'), NotFoundError)
  const seen = []
  const watch = await sandbox.files.watchDir('dir', (event) => void seen.push(event))
  await sandbox.files.write('dir/new.txt', 'x')
  await until(() => seen.some((event) => event.type === FilesystemEventType.WRITE && event.name === 'new.txt'))
  await sandbox.files.rename('dir/new.txt', 'dir/old.txt')
  await until(() => seen.some((event) => event.type === FilesystemEventType.RENAME))
  await watch.stop()
  await sandbox.files.remove('dir')
  assert.equal(await sandbox.files.exists('dir'), false)
  const answer = await fetch(await sandbox.downloadUrl('notes/today.txt', { useSignatureExpiration: 600_000 }))
  assert.equal(await answer.text(), 'grüß dich')
})

test('a terminal', async () => {
  const sandbox = await make()
  let screen = ''
  const terminal = await sandbox.pty.create({
    cols: 80,
    rows: 24,
    onData: (bytes) => void (screen += new TextDecoder().decode(bytes)),
  })
  await sandbox.pty.resize(terminal.pid, { cols: 100, rows: 30 })
  await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode('stty size; exit\n'))
  assert.equal((await terminal.wait()).exitCode, 0)
  assert.match(screen, /30 100/)
})

test('a pause keeps processes, a snapshot and a fork files', async () => {
  const sandbox = await make()
  const sleeper = await sandbox.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
  await sandbox.files.write('kept', 'here')
  await sandbox.pause()
  assert.equal(await sandbox.isRunning(), false)
  const again = await sandbox.connect()
  assert.ok((await again.commands.list()).some((process) => process.pid === sleeper.pid))
  const snapshot = await again.createSnapshot()
  const copy = await make({ template: snapshot.snapshotId })
  assert.equal(await copy.files.read('kept'), 'here')
  const [fork] = await again.fork()
  made.push(fork)
  assert.equal(await fork.files.read('kept'), 'here')
})

test('the code interpreter', async () => {
  const coder = await make({}, Coder)
  await coder.runCode('x = 20')
  const told = await coder.runCode('print("said"); x + 1')
  assert.equal(told.text, '21')
  assert.equal(told.logs.stdout.join(''), 'said\n')
  assert.equal((await coder.runCode('1 / 0')).error.name, 'ZeroDivisionError')
  assert.equal((await coder.runCode('[1, 2].length', { language: 'js' })).text, '2')
})

test('a template is built from steps', async () => {
  const name = `js-${randomUUID()}`
  await Template.build(Template().fromTemplate('base').runCmd('echo made > /home/user/made.txt'), name)
  const sandbox = await make({ template: name })
  assert.equal(await sandbox.files.read('made.txt'), 'made\n')
})

test('fifty at once', async () => {
  const sandboxes = await Promise.all(Array.from({ length: 50 }, () => make({ timeoutMs: 60_000 })))
  const said = await Promise.all(sandboxes.map((sandbox) => sandbox.commands.run('echo $E2B_SANDBOX_ID')))
  assert.deepEqual(said.map((one) => one.stdout.trim()), sandboxes.map((sandbox) => sandbox.sandboxId))
})

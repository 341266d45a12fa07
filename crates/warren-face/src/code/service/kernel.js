// Runs JavaScript cells for the service that started it.
//
// Cells are evaluated as a browser's console does it: declarations stay and may be made again, and `await` works at the top. A second
// thread takes orders and passes them on; through the inspector it can stop even a cell that never yields. Orders come as lines of
// JSON on one descriptor, and what became of them goes back on another. What a cell prints goes to standard output and error.
'use strict';

const fs = require('node:fs');
const inspector = require('node:inspector');
const nodeModule = require('node:module');
const path = require('node:path');
const { Writable } = require('node:stream');
const { pathToFileURL } = require('node:url');
const util = require('node:util');
const { Worker } = require('node:worker_threads');

const [orders, reports, language] = process.argv.splice(1, 3);

const hidden = (name, value) => Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
const here = nodeModule.createRequire(path.join(process.cwd(), 'cell.js'));
hidden('require', here);
// A cell has no file of its own, from which the engine could resolve what it imports.
hidden('__warren_import', async (name) => {
  if (name.startsWith('.')) return import(pathToFileURL(path.resolve(name)).href);
  if (nodeModule.isBuiltin(name) || name.startsWith('/') || /^[a-z]+:/.test(name)) return import(name);
  return import(pathToFileURL(here.resolve(name)).href);
});

// What a cell prints is written at once. The usual streams have a state that does not survive a cell which is stopped in their midst.
class Direct extends Writable {
  constructor(fd) {
    super();
    this.fd = fd;
  }

  write(chunk, encoding, done) {
    const bytes = Buffer.from(chunk, typeof encoding === 'string' ? encoding : undefined);
    for (let at = 0; at < bytes.length; ) at += fs.writeSync(this.fd, bytes, at);
    const told = typeof encoding === 'function' ? encoding : done;
    if (told) process.nextTick(told);
    return true;
  }

  end(chunk, encoding, done) {
    if (chunk && typeof chunk !== 'function') this.write(chunk, encoding, done);
    return this;
  }
}
for (const [name, fd] of [['stdout', 1], ['stderr', 2]]) {
  Object.defineProperty(process, name, { value: new Direct(fd), configurable: true });
}

// Nobody waits for what a cell has left running.
for (const event of ['uncaughtException', 'unhandledRejection']) {
  process.on(event, (error) => fs.writeSync(2, `Uncaught ${util.inspect(error)}\n`));
}
// The usual way out waits for the inspector, which is ours.
process.exit = () => process.kill(process.pid, 'SIGKILL');
// Stopping a cell is the other thread's business.
process.on('SIGINT', () => {});

const session = new inspector.Session();
session.connect();
const ask = (method, options) =>
  new Promise((answer, fail) => session.post(method, options, (error, result) => (error ? fail(error) : answer(result))));

// The value that the inspector has only told about.
const taken = async (told) => {
  if (!told.objectId) return told.unserializableValue === undefined ? told.value : told;
  const options = { objectId: told.objectId, arguments: [{ objectId: told.objectId }] };
  await ask('Runtime.callFunctionOn', { ...options, functionDeclaration: 'function (value) { __warren_take(value); }' });
  return seen;
};
let seen;
hidden('__warren_take', (value) => (seen = value));

const shown = (value, told) => {
  if (told.unserializableValue !== undefined) return { text: told.description };
  const plain = Array.isArray(value) || (value && Object.getPrototypeOf(value) === Object.prototype);
  let json;
  try {
    json = plain ? JSON.stringify(value) : undefined;
  } catch {
    json = undefined; // It contains itself, or a number that JSON does not have.
  }
  return { text: typeof value === 'string' ? value : util.inspect(value, { depth: 4 }), json };
};

const failed = (error) => {
  if (!util.types.isNativeError(error)) return { name: 'Error', value: util.inspect(error), traceback: '' };
  const lines = String(error.stack ?? error).split('\n');
  // What is below the cell is the service's.
  const last = lines.findLastIndex((line) => /<anonymous>:\d+/.test(line) || !/^\s+at /.test(line));
  return { name: error.name, value: error.message, traceback: lines.slice(0, last + 1).join('\n') };
};

// TypeScript without its types.
const untyped = (code) => {
  if (nodeModule.stripTypeScriptTypes) return nodeModule.stripTypeScriptTypes(code, { mode: 'transform' });
  const find = nodeModule.createRequire('/usr/share/nodejs/cell.js');
  const { transpileModule, ScriptTarget, ModuleKind } = find('typescript');
  const options = { target: ScriptTarget.ES2022, module: ModuleKind.ESNext, importsNotUsedAsValues: 1, preserveValueImports: true };
  return transpileModule(code, { compilerOptions: options }).outputText.replace(/^export \{\};?\s*$/m, '');
};

// The places of a text that are code, and neither strings nor comments.
const codeOnly = (text, change) => {
  const apart = /\/\/[^\n]*|\/\*[^]*?\*\/|"(?:\\[^]|[^"\\\n])*"|'(?:\\[^]|[^'\\\n])*'|`(?:\\[^]|[^`\\])*`/g;
  const kept = [];
  const bare = text.replace(apart, (piece) => `\u0000${kept.push(piece) - 1}\u0000`);
  return change(bare).replace(/\u0000(\d+)\u0000/g, (_, at) => kept[at]);
};
const names = (list) => list.replace(/\bas\b/g, ':').replace(/^\{|\}$/g, '');
// Imports as calls, which a console understands.
const imported = (code) =>
  codeOnly(code, (bare) =>
    bare
      .replace(/^([ \t]*)import[ \t]+(\u0000\d+\u0000)[ \t]*;?/gm, '$1await __warren_import($2);')
      .replace(/^([ \t]*)import[ \t]+([^;\u0000(]+?)[ \t\n]+from[ \t]+(\u0000\d+\u0000)[ \t]*;?/gm, (_, space, what, from) => {
        const parts = [];
        const rest = what.replace(/\{[^}]*\}/, (list) => (parts.push(names(list)), '')).split(',');
        let whole = '';
        for (const part of rest.map((part) => part.trim()).filter(Boolean)) {
          const star = part.match(/^\*\s+as\s+(\S+)$/);
          if (star) whole = `const ${star[1]} = await __warren_import(${from});`;
          else parts.unshift(`default: ${part}`);
        }
        return `${space}${whole}${parts.length ? `const {${parts.join(', ')}} = await __warren_import(${from});` : ''}`;
      })
      .replace(/(^|[^.\w$])import(?=\s*\()/g, '$1__warren_import'),
  );

const busy = new Int32Array(new SharedArrayBuffer(4));
// The order that is being followed, and the variables to put back after it.
let current = null;

const put = (name, value) => {
  if (value === undefined) delete process.env[name];
  else process.env[name] = value;
};

// May be stopped anywhere and called again: then a report is sent twice, and known by its number.
const finish = (number, done) => {
  if (current?.number !== number) return;
  Atomics.store(busy, 0, 0);
  for (const [name, value] of current.before) put(name, value);
  fs.writeSync(Number(reports), `${JSON.stringify({ number, done })}\n`);
  current = null;
};

const evaluated = async (code) => {
  const expression = imported(language === 'typescript' ? untyped(code) : code);
  const answer = await ask('Runtime.evaluate', { expression, replMode: true, awaitPromise: true });
  if (answer.exceptionDetails) return { error: failed(await taken(answer.exceptionDetails.exception)) };
  if (answer.result.type === 'undefined') return {};
  return shown(await taken(answer.result), answer.result);
};

const stopped = { error: { name: 'Interrupted', value: 'the cell was interrupted', traceback: '' } };

const run = async ({ number, code, env }) => {
  current = { number, before: Object.keys(env).map((name) => [name, process.env[name]]) };
  Atomics.store(busy, 0, 1);
  try {
    for (const [name, value] of Object.entries(env)) put(name, value);
    finish(number, await evaluated(code));
  } catch (error) {
    finish(number, error.code === 'ERR_INSPECTOR_COMMAND' ? stopped : { error: failed(error) });
  }
};

const control = () => {
  const { Socket } = require('node:net');
  const { Session } = require('node:inspector');
  const { parentPort, workerData } = require('node:worker_threads');
  const session = new Session();
  session.connectToMainThread();

  const passOn = (order) => {
    if (!order.interrupt) return parentPort.postMessage(order);
    if (Atomics.load(workerData.busy, 0) === 0) return parentPort.postMessage(order);
    // A cell that runs is ended by the first, and one that waits is left by the second. What is in its way is told again.
    session.post('Runtime.terminateExecution');
    return parentPort.postMessage(order);
  };
  let rest = '';
  const input = new Socket({ fd: workerData.orders, readable: true, writable: false });
  input.setEncoding('utf8');
  input.on('data', (text) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop();
    lines.forEach((line) => passOn(JSON.parse(line)));
  });
  input.on('end', () => process.kill(process.pid, 'SIGKILL'));
  parentPort.postMessage({ ready: true });
};

const worker = new Worker(`(${control})()`, { eval: true, workerData: { orders: Number(orders), busy } });
worker.on('message', (order) => {
  if (order.ready) fs.writeSync(Number(reports), '{}\n');
  else if (order.interrupt) finish(order.interrupt, stopped);
  else run(order);
});

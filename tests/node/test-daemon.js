'use strict';
// Processes that start a daemon where there is none: all have one pool, and the daemon ends after them.

const assert = require('node:assert');
const { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { TSLABD, child, ended, tslab, waitFor } = require('./util.js');

const folder = mkdtempSync(path.join(os.tmpdir(), 'tslab-test-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const start = { program: TSLABD, size: '64M', idle: 1 };
const N = 6;

/** The number a child prints. */
function number(one) {
  return new Promise((resolve, reject) => {
    one.stdout.once('data', (text) => resolve(Number(text)));
    one.once('close', () => reject(new Error('a child has ended')));
  });
}

/** The process that has the argument. */
function withArgument(argument) {
  return readdirSync('/proc').find((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0').includes(argument);
    } catch {
      return false;
    }
  });
}

test('the first process starts a daemon, and the last one leaves none', async (t) => {
  const socket = path.join(folder, 'Web-1.sock');
  process.env.NOTIFY_SOCKET = '/nonexistent/notify';
  const children = Array.from({ length: N }, () => child('started', socket, start));
  delete process.env.NOTIFY_SOCKET;
  t.after(() => children.forEach((one) => one.kill('SIGKILL')));
  const sums = await Promise.all(children.map(number));
  assert.deepStrictEqual(sums.sort(), Array.from({ length: N }, (_, i) => i + 1));

  // It is nobody's child: it stays when the process that started it is killed, with all its children or alone.
  const pool = tslab.open(socket);
  const daemon = withArgument(`--listen=${socket}`);
  const parent = Number(/^PPid:\t(\d+)$/m.exec(readFileSync(`/proc/${daemon}/status`, 'latin1'))[1]);
  assert.ok(![process.pid, ...children.map((one) => one.pid)].includes(parent));
  assert.doesNotMatch(readFileSync(`/proc/${daemon}/environ`, 'latin1'), /NOTIFY_SOCKET/);
  children.forEach((one, i) => one.kill(i % 2 ? 'SIGKILL' : 'SIGTERM'));
  await Promise.all(children.map(ended));
  assert.strictEqual(pool.map('shared').add('n'), N + 1);
  pool.close();
  await waitFor(() => !existsSync(socket));

  // The next one begins anew, and so does a pool beside it.
  const sockets = [socket, ...['web_1.sock', 'WEB.1.sock', '.sock'].map((name) => path.join(folder, name))];
  const pools = sockets.map((name) => tslab.open(name, { start }));
  for (const one of pools) assert.strictEqual(one.map('shared').add('n'), 1);
  for (const one of pools) one.close();
  await waitFor(() => !sockets.some(existsSync));
});

test('a folder in which others can make files', () => {
  const open = path.join(folder, 'open');
  mkdirSync(open);
  chmodSync(open, 0o1777);
  assert.throws(() => tslab.open(path.join(open, 'web.sock'), { start }), { name: 'RangeError', message: /other users/ });
});

test('a daemon that cannot be started', () => {
  const open = (more) => tslab.open(path.join(folder, 'none.sock'), { start: { ...start, ...more } });
  assert.throws(() => open({ size: '5' }), { name: 'RangeError', message: /--size: '5' will not do/ });
  assert.throws(() => open({ idle: 0 }), { name: 'RangeError', message: /--exit-idle/ });
  assert.throws(() => open({ sise: '64M' }), { name: 'RangeError', message: /no option sise/ });
  assert.throws(() => open({ program: '/nonexistent/tslabd' }), /cannot be started \(ENOENT\)/);
});

test('a daemon is started where there is no folder for temporary files', async () => {
  const socket = path.join(folder, 'container.sock');
  const before = process.env.TMPDIR;
  process.env.TMPDIR = path.join(folder, 'absent');
  try {
    tslab.open(socket, { start }).close();
  } finally {
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
  }
  await waitFor(() => !existsSync(socket));
});

test('a daemon that fails after its start tells why, at once', async (t) => {
  const taken = path.join(folder, 'taken.sock');
  mkdirSync(taken);
  assert.throws(() => tslab.open(taken, { start }), /cannot serve the pool .*taken\.sock: .*in use by another program.*By hand: .*--listen=/);

  // Beside a process that still has the memory of a daemon that was killed, no other daemon begins.
  const socket = path.join(folder, 'killed.sock');
  const one = child('started', socket, start);
  t.after(() => one.kill('SIGKILL'));
  await number(one);
  const daemon = Number(withArgument(`--listen=${socket}`));
  process.kill(daemon, 'SIGKILL');
  await waitFor(() => withArgument(`--listen=${socket}`) === undefined);
  assert.throws(() => tslab.open(socket, { start }), /cannot serve the pool .*killed\.sock: .*in use by 1 process.*--adopt=/);

  // One that is killed without a word, each time.
  const silent = path.join(folder, 'tslabd');
  writeFileSync(silent, '#!/bin/sh\n[ "$1" = --check-config ] || kill -9 $$\n', { mode: 0o755 });
  assert.throws(() => tslab.open(path.join(folder, 'silent.sock'), { start: { ...start, program: silent } }), /it ended and said nothing/);
});

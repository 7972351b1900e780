'use strict';
// Processes that start a daemon where there is none: all have one pool, and the daemon ends after them.

const assert = require('node:assert');
const { existsSync, mkdtempSync, rmSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { TSLABD, child, ended, tslab, waitFor } = require('./util.js');

const folder = mkdtempSync(path.join(os.tmpdir(), 'tslab-test-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const start = { program: TSLABD, size: '64M', idle: 1 };
const N = 6;

test('the first process starts a daemon, and the last one leaves none', async () => {
  const socket = path.join(folder, 'Web-1.sock');
  const children = Array.from({ length: N }, () => child('started', socket, start));
  const sums = await Promise.all(children.map((one) => new Promise((resolve) => one.stdout.once('data', resolve))));
  assert.deepStrictEqual(sums.map(Number).sort(), Array.from({ length: N }, (_, i) => i + 1));

  // It is nobody's child: it stays when the process that started it is killed.
  const pool = tslab.open(socket);
  children.forEach((one, i) => one.kill(i % 2 ? 'SIGKILL' : 'SIGTERM'));
  await Promise.all(children.map(ended));
  assert.strictEqual(pool.map('shared').add('n'), N + 1);
  pool.close();
  await waitFor(() => !existsSync(socket));

  // The next one begins anew, and so does a pool beside it.
  const pools = [socket, path.join(folder, 'web_2.sock')].map((name) => tslab.open(name, { start }));
  for (const one of pools) assert.strictEqual(one.map('shared').add('n'), 1);
  for (const one of pools) one.close();
  await waitFor(() => !existsSync(socket) && !existsSync(path.join(folder, 'web_2.sock')));
});

test('a daemon that cannot be started', () => {
  const open = (more) => tslab.open(path.join(folder, 'none.sock'), { start: { ...start, ...more } });
  assert.throws(() => open({ size: '5' }), { name: 'RangeError', message: /--size: '5' will not do/ });
  assert.throws(() => open({ idle: 0 }), { name: 'RangeError', message: /--exit-idle/ });
  assert.throws(() => open({ sise: '64M' }), { name: 'RangeError', message: /no option sise/ });
  assert.throws(() => open({ program: '/nonexistent/tslabd' }), /cannot be started \(ENOENT\)/);
});

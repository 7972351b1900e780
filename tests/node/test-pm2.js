'use strict';
// pm2's cluster with four workers and no daemon: they are killed, reloaded, and all ended. pm2 comes from npm; where it does not,
// the test is skipped.

const assert = require('node:assert');
const { spawnSync } = require('node:child_process');
const { existsSync } = require('node:fs');
const path = require('node:path');
const { after, test } = require('node:test');
const { installPackages, tslab, waitFor } = require('./util.js');

const folder = installPackages(['pm2@5']);
const socket = path.join(folder, 'web.sock');
const { NODE_TEST_CONTEXT: _, ...rest } = process.env;
const env = { ...rest, PM2_HOME: path.join(folder, 'home'), PM2_TEST_SOCKET: socket };
const HOST = '127.0.0.1';
const N = 4;

function pm2(...args) {
  const done = spawnSync(process.execPath, [path.join(folder, 'node_modules/pm2/bin/pm2'), ...args], { env, encoding: 'utf8', timeout: 60000 });
  assert.strictEqual(done.status, 0, done.stdout + done.stderr);
  return done.stdout;
}

test('workers of pm2 share a pool', async () => {
  after(() => pm2('kill'));
  pm2('start', path.join(__dirname, 'pm2-app.js'), '--name', 'app', '-i', String(N));
  await waitFor(() => existsSync(socket));
  const pool = tslab.open(socket);
  const map = pool.map('app');
  await waitFor(() => map.getString('port'));
  const numbers = new Set();
  let failed = 0;

  // Once all workers have ended, the next ones have another port.
  /** The process that answered; undefined: it ended meanwhile, perhaps with the connection in hand. */
  const ask = async () => {
    try {
      const answer = await fetch(`http://${HOST}:${map.getString('port')}/`, { headers: { connection: 'close' }, signal: AbortSignal.timeout(2000) });
      const [number, pid] = (await answer.text()).split(' ').map(Number);
      assert.ok(!numbers.has(number));
      numbers.add(number);
      return pid;
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
      failed++;
      return undefined;
    }
  };
  /** Until so many workers have answered that are none of these. */
  const askAll = async (n, former = []) => {
    const pids = new Set();
    await waitFor(async () => {
      const pid = await ask();
      if (pid !== undefined && !former.includes(pid)) pids.add(pid);
      return pids.size >= n;
    });
    return [...pids];
  };

  const first = await askAll(N);
  for (const pid of first) {
    process.kill(pid, 'SIGKILL');
    await ask();
  }
  const second = await askAll(N, first);
  pm2('reload', 'app');
  await askAll(N, [...first, ...second]);

  // Each request that was answered counted once, and one that was not at most once.
  const counted = Number(map.add('requests', 0));
  assert.ok(counted >= numbers.size && counted <= numbers.size + failed, `${counted}, ${numbers.size} answered, ${failed} not`);

  // pm2 ends all children of its workers: the daemon is none, and stays for this process.
  pm2('delete', 'app');
  assert.strictEqual(map.add('requests'), counted + 1);
  pool.close();
  await waitFor(() => !existsSync(socket));
});

'use strict';
// Processes that are killed at random: nothing is lost, nothing is wrong, nobody hangs.

const assert = require('node:assert');
const { test } = require('node:test');
const { Daemon, IS_FULL, child, ended, sleep, tslab, waitFor } = require('./util.js');

const KILLS = Number(process.env.TSLAB_TEST_KILLS ?? (IS_FULL ? 10000 : 40));
const AT_ONCE = 4;

test('processes are killed while they change a map', async () => {
  const daemon = await Daemon.start('--size=64M');
  const pool = tslab.open(daemon.socket);
  const map = pool.map('storm');
  let kills = 0;

  const storm = async (name) => {
    while (kills < KILLS) {
      const process = child('storm', daemon.socket, name);
      await new Promise((resolve) => process.stdout.once('data', resolve));
      const before = Number(map.getString(name) ?? 0);
      await waitFor(() => Number(map.getString(name) ?? 0) !== before);
      await sleep(Math.random() * 10);
      process.kill('SIGKILL');
      kills++;
      assert.strictEqual(await ended(process), 'SIGKILL');
      // What it had put last is there: this one, or what it was about to put.
      const last = Number(map.getString(name));
      assert.ok(last > 0, `${name} is lost`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, (_, i) => storm(`process ${i}`)));

  assert.strictEqual(map.get('wrong'), undefined);
  const lock = map.lock('lock');
  assert.ok(await lock.acquire({ timeout: 60 }), 'the lock of a killed process stays');
  assert.ok(lock.release());
  for (let i = 0; i < 20; i++) {
    const value = map.getString(`key ${i}`);
    if (value !== undefined) assert.strictEqual(value, value[0].repeat(value.length));
    map.put(`key ${i}`, 'x');
  }
  assert.ok(map.add('n', 0) > 0 && map.add('held', 0) > 0);
  map.clear();
  await waitFor(() => map.stats().entries === 0);
  console.log(`# ${kills} kills: nothing is lost, wrong or hung`);
  pool.close();
  await daemon.stop();
});

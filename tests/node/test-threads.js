'use strict';
// Worker threads: they share the pool, end at any time, and are terminated in the middle of calls and waits.

const assert = require('node:assert');
const { test } = require('node:test');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const { Daemon, IS_FULL, SECONDS, sleep, tslab } = require('./util.js');

const JOBS = {
  count({ socket, n }) {
    const map = tslab.open(socket).map('m');
    for (let i = 0; i < n; i++) map.add('n');
  },
  /** Calls without an end, of which termination cuts one off. */
  storm({ socket }) {
    const map = tslab.open(socket).map('m');
    const value = Buffer.alloc(3000, 1);
    parentPort.postMessage('ready');
    for (let i = 0; ; i++) {
      map.put(`k${i % 50}`, value);
      if (map.get(`k${i % 50}`)?.length !== 3000) throw new Error('wrong value');
      map.getString(`k${i % 50}`);
      map.add('storms');
    }
  },
  async wait({ socket }) {
    const map = tslab.open(socket).map('m');
    const waits = Array.from({ length: 100 }, () => map.wait('held', 0n, { timeout: 60 }));
    map.pool.stale();
    parentPort.postMessage('ready');
    await Promise.all(waits);
  },
  idle({ socket }) {
    tslab.open(socket).map('m').lock('x').tryAcquire();
  },
};

const start = (job, data) => new Worker(__filename, { workerData: { job, ...data } });
const ready = (worker) => new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject));
const exited = (worker) => new Promise((resolve, reject) => worker.once('exit', resolve).once('error', reject));

if (!isMainThread) {
  JOBS[workerData.job](workerData);
} else {
  let daemon;
  test.before(async () => (daemon = await Daemon.start('--size=64M')));
  test.after(() => daemon.stop());

  test('threads count together, and end by themselves', async () => {
    const workers = Array.from({ length: 6 }, () => start('count', { socket: daemon.socket, n: 20000 }));
    assert.deepStrictEqual(await Promise.all(workers.map(exited)), Array(6).fill(0));
    const pool = tslab.open(daemon.socket);
    assert.strictEqual(pool.map('m').add('n', 0), 120000);
    pool.close();
  });

  test('threads are terminated in the middle of calls', async () => {
    const pool = tslab.open(daemon.socket);
    const map = pool.map('m');
    const end = performance.now() + SECONDS * 1000;
    const isDone = (round) => round >= (IS_FULL ? 300 : 15) && (map.add('storms', 0) > 0 || performance.now() > end);
    for (let round = 0; !isDone(round); round++) {
      const workers = [0, 1].map(() => start('storm', { socket: daemon.socket }));
      await Promise.all(workers.map(ready));
      await sleep(round % 10);
      await Promise.all(workers.map((worker) => worker.terminate()));
    }
    for (let i = 0; i < 50; i++) assert.ok([undefined, 3000].includes(map.get(`k${i}`)?.length));
    assert.ok(map.add('storms', 0) > 0);
    map.clear();
    pool.close();
  });

  test('threads are terminated while they wait, and with a pool that others use', async () => {
    const pool = tslab.open(daemon.socket);
    const map = pool.map('m');
    map.claim('held', { ttl: 100 });
    const workers = Array.from({ length: 5 }, () => start('wait', { socket: daemon.socket }));
    await Promise.all(workers.map(ready));
    const mine = map.wait('held');
    await Promise.all(workers.slice(0, 3).map((worker) => worker.terminate()));
    const ends = workers.slice(3).map(exited);
    map.clear();
    assert.strictEqual(await mine, true);
    assert.deepStrictEqual(await Promise.all(ends), [0, 0]);
    assert.strictEqual(await exited(start('idle', { socket: daemon.socket })), 0);
    pool.close();
  });
}

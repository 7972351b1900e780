'use strict';
// Waits for claims leave the event loop free: however many end at once, they take about half a millisecond of each turn.

const assert = require('node:assert');
const { once } = require('node:events');
const { test } = require('node:test');
const { Daemon, child, ended, tslab } = require('./util.js');

const WAITS = 20000;
const TURNS_MIN = 5;    // a fast processor takes 20 ms for so many

/** Counts turns of the loop, and how long continuations of waits took in each. */
class Turns {
  n = 0;
  all = new Map();
  #next = setImmediate(() => this.#turn());

  #turn() {
    this.n++;
    this.#next = setImmediate(() => this.#turn());
  }

  async more(n) {
    for (const end = this.n + n; this.n < end;) await new Promise(setImmediate);
  }

  /** A wait has ended. */
  note() {
    const now = performance.now();
    const { begin = now, count = 0 } = this.all.get(this.n) ?? {};
    this.all.set(this.n, { begin, count: count + 1, ms: now - begin });
  }

  end() {
    clearImmediate(this.#next);
  }
}

async function withHolder(key, act) {
  const daemon = await Daemon.start();
  const holder = child('hold', daemon.socket, key);
  const gone = ended(holder);
  try {
    assert.strictEqual(`${(await once(holder.stdout, 'data'))[0]}`, 'held');
    const map = tslab.open(daemon.socket).map('claims');
    await act(map, map.claim(key).version, holder);
    map.pool.close();
  } finally {
    holder.kill('SIGKILL');
    await gone;
    await daemon.stop();
  }
}

test('the loop turns while many wait, whether the holder runs, stands still, or is killed', () => withHolder('k', async (map, version, holder) => {
  const turns = new Turns();
  const waits = Array.from({ length: WAITS }, () => map.wait('k', version).then((is) => turns.note(assert.ok(is))));
  await turns.more(100);
  holder.kill('SIGSTOP');
  await turns.more(100);
  assert.strictEqual(turns.all.size, 0);
  holder.kill('SIGKILL');
  await Promise.all(waits);
  turns.end();
  const longest = Math.max(...Array.from(turns.all.values(), ({ ms }) => ms));
  console.log(`${WAITS} waits ended in ${turns.all.size} turns, of which the longest took ${longest.toFixed(2)} ms`);
  assert.ok(turns.all.size >= TURNS_MIN, `${turns.all.size} turns`);
}));

test('a pool may be closed while its waits end', () => withHolder('k', async (map, version, holder) => {
  let n = 0;
  const waits = Array.from({ length: WAITS }, () => map.wait('k', version).then(() => {
    if (++n === 10) map.pool.close();
  }));
  holder.kill('SIGKILL');
  const results = await Promise.allSettled(waits);
  assert.ok(n >= 10);
  for (const { reason } of results) assert.ok(reason === undefined || reason.code === 'EIDRM', reason);
}));

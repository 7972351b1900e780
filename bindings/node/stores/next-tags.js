'use strict';
// What the handlers for Next.js know of tags, in the map "next-tags" of the pool that $TSLAB_POOL names, or "default".
//
// Each revalidation counts, and has a number by that. An entry knows the count at which it was begun, and a tag the numbers
// of its revalidations: those above the entry's count are later than what is in it. Two numbers that are changed in place,
// which needs no memory, make it safe to lose the record of a tag:
//
//     count   how many there were. It begins with the time: where the counters were lost with the records, all entries are
//             from before the new count
//     floor   an entry that was begun at a lower count is over, whatever its tags are. It is raised before records go, and
//             read after them: nobody misses a record that goes meanwhile
//
// A record that cannot be read goes as well, be it damaged or another program's.

const { createHash } = require('node:crypto');
const { Cache } = require('../lib/cache.js');
const { TslabError, warn } = require('../lib/error.js');
const { open } = require('../lib/pool.js');

const NAME_MAX = 200; // of characters; more may be more than a key of a map can have
const RECORDS_MAX = 1 << 17; // of tags, some 128 bytes each
const LOOK_EVERY = 64; // revalidations: then the records are counted
const ENDS_MAX = 4;
const STEP = 1000; // records, between other work of the loop
const AGAIN_MS = 5000;
const FRESH = 0;
const STALE = 1;
const OVER = 2;

/** The key of an entry or a tag. A long name is known by its hash, to all calls alike. */
function keyOf(kind, name) {
  return name.length <= NAME_MAX ? `${kind}:${name}` : `${kind}#${createHash('sha256').update(name).digest('base64url')}`;
}

/** The number of a tag's last revalidation. */
const newest = ([expired, stale, ...ends]) => ends.reduce((n, each, i) => (i % 2 === 0 ? Math.max(n, each) : n), Math.max(expired, stale));

/**
 * A record after another revalidation, of number `n`. It has the numbers of the last one by which entries expired at once,
 * and of the last one by which they became stale, then numbers with the times at which the entries from before end: both
 * rise, since of two the later one counts alone if it ends no later. Of too many, two that end after each other are one,
 * with the earlier end: nothing lives for longer by that.
 */
function renewed([expired, stale, ...ends], n, durations) {
  if (!durations) return [n, Math.max(stale, n)];
  const now = Date.now();
  const end = now + (durations.expire ?? Infinity) * 1000;
  const pairs = [];
  for (let i = 0; i < ends.length; i += 2) {
    if (ends[i + 1] <= now) expired = Math.max(expired, ends[i]);
    else if (ends[i + 1] < end) pairs.push([ends[i], ends[i + 1]]);
  }
  if (end <= now) expired = n;
  else if (end < Infinity) pairs.push([n, end]);
  if (pairs.length > ENDS_MAX) {
    const gaps = pairs.slice(1).map(([, at], i) => at - pairs[i][1]);
    const i = gaps.indexOf(Math.min(...gaps));
    pairs.splice(i, 2, [pairs[i + 1][0], pairs[i][1]]);
  }
  return [expired, Math.max(stale, n), ...pairs.flat()];
}

const isNumber = (value) => typeof value === 'number';
const isRecord = (value) => Array.isArray(value) && value.length >= 2 && value.every(isNumber);

/** Where a count begins: in microseconds, and so above all counts before it. */
const initial = () => Math.floor(Math.max(Date.now(), performance.timeOrigin + performance.now()) * 1000);

class Tags {
  #cache;
  #max;

  constructor(pool, max = RECORDS_MAX) {
    this.#cache = new Cache(pool, { name: 'next-tags' });
    this.#max = max;
    this.#cache._onLoss = (key) => this.#lose(key);
    this.now();
  }

  #read(key, isValid) {
    const value = this.#cache.get(key);
    if (value === undefined || isValid(value)) return value;
    this.#lose(key);
    return undefined;
  }

  /** Drops what cannot be read. It may have told of any revalidation, and so may what another process writes meanwhile. */
  #lose(key) {
    const isTag = String(key).startsWith('tag');
    if (isTag) this.#endAll();
    this.#cache.delete(key);
    if (isTag) this.#endAll();
  }

  /** Ends all entries that were begun until now. */
  #endAll() {
    this.#raise(this.#cache.incr('count', 1, { initial: initial() }));
  }

  /** The count of revalidations, for an entry that is begun now. */
  now() {
    const count = this.#read('count', isNumber);
    if (count === undefined) return this.#raise(this.#cache.incr('count', 0, { initial: initial() }));
    const floor = this.#read('floor', isNumber) ?? this.#cache.incr('floor', 0, { initial: count });
    return count >= floor ? count : this.#cache.incr('count', floor - count);
  }

  /** Ends all entries that were begun before this count. If several do so at once, it may rise above the count, which follows. */
  #raise(count) {
    const floor = this.#cache.incr('floor', 0, { initial: count });
    if (floor < count) this.#cache.incr('floor', count - floor);
    return this.now();
  }

  /** FRESH, STALE or OVER: an entry with such tags that was begun at a count, and that was tried to be made anew at another. */
  look(begun, names, tried = begun) {
    const now = Date.now();
    let found = FRESH;
    for (const name of names) {
      const [expired = 0, stale = 0, ...ends] = this.#read(keyOf('tag', name), isRecord) ?? [];
      if (expired > begun || ends.some((n, i) => i % 2 === 0 && n > begun && ends[i + 1] <= now)) return OVER;
      if (stale > tried) found = STALE;
    }
    // Nobody knows of entries that do not say it, nor of those from before a loss of the counters and a clock set back.
    if (!(begun >= this.#read('floor', isNumber) && begun <= this.#read('count', isNumber))) return OVER;
    return found;
  }

  /** Revalidates tags: their entries are over, or with `durations` stale, and over after `durations.expire` seconds. */
  async update(names, durations) {
    for (const name of names) {
      this.now();
      const n = this.#cache.incr('count', 1, { initial: initial() });
      try {
        this.#renew(keyOf('tag', name), n, durations);
      } catch (error) {
        if (!(error instanceof TslabError)) throw error;
        warn('next-tags', `all entries are over, as a tag could not be revalidated by itself: ${error.message}`);
        await this.#drop(n);
      }
      if (n % LOOK_EVERY === 0) await this.#makeRoom();
    }
  }

  #renew(key, n, durations) {
    while (!this.#cache.add(key, renewed([0, 0], n, durations))) {
      if (this.#read(key, isRecord) === undefined) continue;
      if (this.#cache._change(key, (record) => renewed(record, n, durations))) return;
    }
  }

  /** Where there are too many records, the older half goes, and so do all entries that are as old. */
  async #makeRoom() {
    const { entries } = this.#cache.stats();
    if (entries <= this.#max) return;
    const lock = this.#cache.lock('room', { ttl: 10 });
    // It is no harm if several processes do it, but one is enough as long as it is in time.
    const isMine = lock.tryAcquire();
    if (!isMine && entries <= 2 * this.#max) return;
    try {
      const numbers = [];
      await this.#walk((key, record) => numbers.push(newest(record)));
      await this.#drop(numbers.sort((a, b) => a - b)[numbers.length >> 1]);
    } finally {
      lock.release();
    }
  }

  /** Ends all entries that were begun before this count, and drops the records that concern no others. */
  async #drop(count) {
    this.#raise(count);
    const isOld = (record) => newest(record) <= count;
    await this.#walk((key, record) => {
      if (isOld(record)) this.#cache._change(key, (now) => (isOld(now) ? undefined : now));
    });
  }

  async #walk(visit) {
    let n = 0;
    for (const key of this.#cache.map.keys()) {
      const record = String(key).startsWith('tag') ? this.#read(key, isRecord) : undefined;
      if (record !== undefined) visit(key, record);
      if (++n % STEP === 0) await new Promise(setImmediate);
    }
  }
}

let maps;
let nextTry = 0;

/** { pool, tags } of the process. */
function opened() {
  if (maps === undefined) {
    const pool = open();
    maps = { pool, tags: new Tags(pool) };
  }
  return maps;
}

/** As opened(). Where there is no pool, as while an image of the program is built, all entries are absent: undefined. */
function tryOpened() {
  if (maps === undefined && performance.now() < nextTry) return undefined;
  try {
    return opened();
  } catch (error) {
    if (!(error instanceof TslabError)) throw error;
    nextTry = performance.now() + AGAIN_MS;
    warn('next', `nothing is cached: ${error.message}`);
    return undefined;
  }
}

module.exports = { FRESH, STALE, OVER, Tags, keyOf, opened, tryOpened };

'use strict';

const { AsyncLocalStorage } = require('node:async_hooks');
const native = require('./native.js');
const { TslabError, warn } = require('./error.js');
const { Lock } = require('./lock.js');
const { TAGS_MAX } = require('./map.js');
const { ttlMs } = require('./time.js');
const { counted, decode, encode } = require('./value.js');

const { info, scratch, ABSENT, TOO_LARGE } = native;

// Errors of the pool because of which a value is not kept. The caller gets the value all the same, and no exception.
const UNKEPT = new Set(['ENOSPC', 'ENOMEM', 'E2BIG', 'ENOTCONN', 'ECONNREFUSED', 'ETIMEDOUT', 'ESHUTDOWN', 'EUCLEAN', 'EBUSY',
  'EUSERS', 'EDQUOT', 'ENOBUFS', 'EIDRM']);
// The first ends by itself once it was told, the others with another map.
const MENDED = new Set(['ESHUTDOWN', 'EIDRM']);
const MISSING = Symbol('missing');

/** A copy of the names of tags. In their place may be the tags themselves, as Map.tag() told them. */
function checkedNames(tags) {
  const names = Array.isArray(tags) ? Array.from(tags) : [undefined];
  if (names.length > TAGS_MAX || !names.every((tag) => typeof tag === 'string' || typeof tag === 'bigint' || tag instanceof Uint8Array))
    throw new TypeError(`tags are an array of up to ${TAGS_MAX} strings or Buffers; leave them out where a value has none`);
  return names;
}

/** The tags of names, as they are now. */
const tagged = (map, names) => names.map((tag) => (typeof tag === 'bigint' ? tag : map.tag(tag)));

// The keys that are being computed by a caller of the code that runs, each with its cache.
const computing = new AsyncLocalStorage();

/**
 * Values that can be made again, by key, shared by all processes of a pool.
 *
 *     const cache = new tslab.Cache(pool, { ttl: 300, evict: 'sieve', limitBytes: 64 << 20 });
 *     const page = await cache.getOrCompute('page 7', () => render(7));
 */
class Cache {
  #isRefused = false; // whether the last value was bytes that are none
  _onLoss; // what is to be called with a key whose value is deleted as damaged, or refused

  /** `options` are those of Pool.map(), and `serializer`: 'json', which all languages read, or 'v8' for structured clone. */
  constructor(pool, options = {}) {
    const { name = 'cache', ttl, serializer = 'json', ...rest } = options;
    if (serializer !== 'json' && serializer !== 'v8') throw new RangeError(`serializer is 'json' or 'v8', not ${serializer}`);
    ttlMs(ttl);
    this.ttlDefault = ttl;
    this.serializer = serializer;
    this.map = pool.map(name, rest);
    this.accept = rest.stale ? native.STALE : 0;
  }

  #ms(ttl) {
    return ttlMs(ttl ?? this.ttlDefault);
  }

  /** Makes a call, and once more where the map is another by now, or its epoch was closed. */
  #use(call) {
    try {
      return call(this.map._native);
    } catch (error) {
      if (!(error instanceof TslabError) || !MENDED.has(error.code) || !this.map.pool.isOpen) throw error;
      if (error.code === 'EIDRM') this.map._reopen();
      else this.map.pool._native.leaveClosed();
      return call(this.map._native);
    }
  }

  // Reading

  /** The value, or MISSING; `info` describes its entry. */
  #find(key, accept) {
    let found;
    try {
      found = this.#use((map) => map.getValue(key, accept));
    } catch (error) {
      if (error.code !== 'EUCLEAN') throw error;
      warn('damaged', `a cached value is deleted: ${error.message}`);
      this._onLoss?.(key);
      this.#forget(key);
      return MISSING;
    }
    return typeof found === 'string' && info.kind === native.TEXT ? found : this.#value(found, key, accept, false);
  }

  #value(found, key, accept, isTaken) {
    let data;
    if (found === ABSENT) return MISSING;
    while (found === TOO_LARGE) {
      data = Buffer.allocUnsafeSlow(info.valueSize);
      found = this.#use((map) => map.find(key, accept, isTaken, data));
      if (found === ABSENT) return MISSING;
    }
    const { flags } = info;
    try {
      if (typeof found === 'string') return JSON.parse(found);
      data = (data ?? scratch).subarray(0, found);
      return flags & native.COUNTER ? counted(data) : decode(data);
    } catch (error) {
      warn(`refused ${this.map.name}`, `bytes in cache ${JSON.stringify(this.map.name)} are no value: ${error.message}`);
      this.#isRefused = true;
      this._onLoss?.(key);
      return MISSING;
    }
  }

  /** The value, or undefined. */
  get(key) {
    const value = this.#find(key, 0);
    return value === MISSING ? undefined : value;
  }

  has(key) {
    return this.#use(() => this.map.has(key));
  }

  /** The values of those keys that are there, as a Map. */
  getMulti(keys) {
    const values = new Map();
    for (const key of keys) {
      const value = this.#find(key, 0);
      if (value !== MISSING) values.set(key, value);
    }
    return values;
  }

  /** The seconds that a value has left, or Infinity; undefined where there is none. */
  ttl(key) {
    return this.#use(() => this.map.ttl(key));
  }

  stats() {
    return this.#use(() => this.map.stats());
  }

  // Writing

  #put(key, value, { ttl, tags }, mode, version = 0n) {
    const data = encode(value, this.serializer);
    const ms = this.#ms(ttl);
    if (tags === undefined) return this.#use((map) => map.put(key, data, ms, mode, version));
    const names = checkedNames(tags);
    return this.#use((map) => map.put(key, data, ms, mode, version, tagged(map, names)));
  }

  /**
   * Sets a key's value. Where this throws, the old value stays. With `tags`, up to four, the value is absent once
   * invalidate() was called for one of them after this call.
   */
  set(key, value, options = {}) {
    this.#put(key, value, options, native.PUT);
  }

  /** Makes all values that have this tag absent at once, in all processes: whether there was such a tag. */
  invalidate(tag) {
    return this.#use((map) => map.invalidate(tag));
  }

  /**
   * As set(), for adapters whose callers go on without a cache: whether the pool has taken the value. If not, the key is
   * absent: nobody takes the old value for the new one.
   */
  trySet(key, value, options) {
    try {
      this.set(key, value, options);
      return true;
    } catch (error) {
      this.#forget(key);
      if (!UNKEPT.has(error.code)) throw error;
      warn('unkept', `a value was not kept: ${error.message}`);
      return false;
    }
  }

  setMany(entries, options) {
    for (const [key, value] of entries) this.set(key, value, options);
  }

  /** As set(), where the key is absent: whether it was. Of several that add a key, one does. */
  add(key, value, options = {}) {
    return this.#put(key, value, options, native.INSERT);
  }

  /** As set(), where the key is present: whether it was. */
  replace(key, value, options = {}) {
    return this.#put(key, value, options, native.UPDATE);
  }

  /** Replaces a value by another that is made from it, or by none, until nobody else did so meanwhile: whether it was there. */
  _change(key, make, { ttl } = {}) {
    for (;;) {
      const value = this.#find(key, 0);
      if (value === MISSING) return false;
      const { version } = info;
      const next = make(value);
      if (next === undefined ? this.#use((map) => map.remove(key, version)) : this.#put(key, next, { ttl }, native.REPLACE, version))
        return true;
    }
  }

  /** Begins a value's lifetime anew: whether it is there. */
  touch(key, ttl) {
    const ms = this.#ms(ttl);
    return this.#use((map) => map.touch(key, ms));
  }

  /** Adds to a number and returns the sum; no step of others is lost. An absent key counts as `initial`. */
  incr(key, delta = 1, { initial = 0, ttl } = {}) {
    const ms = this.#ms(ttl);
    for (;;) {
      const sum = this.#use(() => this.map._add(key, delta, initial, ms));
      if (sum !== undefined) return sum;
      this.#isRefused = false;
      const value = this.#find(key, 0);
      const { version, flags } = info;
      if (this.#isRefused) throw new TypeError('the value is no number');
      if (value === MISSING || flags & native.COUNTER) continue;
      if (typeof value !== 'number' && typeof value !== 'bigint') throw new TypeError('the value is no number');
      if (flags & native.TAGGED) throw new TypeError('the number has tags, which the sum would not have');
      const total = typeof value === typeof delta ? value + delta : BigInt(value) + BigInt(delta);
      const left = info.ttlLeftMs === Infinity ? Infinity : Math.max(1, info.ttlLeftMs) / 1000;
      if (this.#put(key, total, { ttl: left }, native.REPLACE, version)) return total;
    }
  }

  decr(key, delta = 1, options) {
    return this.incr(key, -delta, options);
  }

  /** Deletes a key and returns the value that it had: of several callers one gets it. */
  pop(key) {
    const found = this.#use((map) => map.find(key, 0, true));
    const value = this.#value(found, key, 0, true);
    return value === MISSING ? undefined : value;
  }

  /** Whether it was there. */
  delete(key) {
    return this.#use((map) => map.remove(key));
  }

  deleteMany(keys) {
    let n = 0;
    for (const key of keys) n += this.delete(key) ? 1 : 0;
    return n;
  }

  /** Deletes all values that are there when it begins. A value that is being computed is not kept. */
  clear() {
    this.#use((map) => map.clear());
  }

  #forget(key, version) {
    try {
      this.#use((map) => map.remove(key, version));
    } catch {
      // As in a pool that this process only reads.
    }
  }

  /** A lock of all processes, on a key that has no value. */
  lock(key, options) {
    return new Lock(this.map, key, options);
  }

  // Computing

  /**
   * A promise of the key's value. If the key is absent, one caller of all processes computes it by `make`, which may
   * return a promise; the others wait for it, or get the stale value if the map keeps these. If that caller throws or is
   * killed, the next one computes. A caller that has waited for `timeout` seconds computes the value, too. If the pool
   * does not take a value, it is returned all the same. With `tags`, up to four, the value is absent once invalidate() was
   * called for one of them, be it while `make` runs.
   */
  async getOrCompute(key, make, { ttl, timeout = 30, tags } = {}) {
    const end = performance.now() + timeout * 1000;
    const names = tags === undefined ? undefined : checkedNames(tags);
    for (;;) {
      const value = this.#find(key, this.accept);
      const isStale = value !== MISSING && (info.flags & native.STALE) !== 0;
      if (value !== MISSING && !isStale) return value;
      const claim = this.#claim(key);
      if (claim === undefined) continue;
      if (claim.isMine) return this.#compute(key, make, { ttl, tags: this.#tagsNow(key, names, claim) }, claim.version);
      if (value !== MISSING) return value;
      if (this.#isComputing(key)) throw new Error(`getOrCompute() of ${key} within its own computation, which would wait for itself`);
      const left = (end - performance.now()) / 1000;
      if (!(left > 0) || !(await this.#wait(key, claim.version, left))) return make(key);
    }
  }

  /** As Map.claim(); a claim of its own without a version where the pool takes none. */
  #claim(key) {
    try {
      const claim = this.#use(() => this.map.claim(key));
      if (claim !== undefined || this.has(key)) {
        // A value that is refused, as it is of a kind that this version does not know, makes room.
        if (claim === undefined && this.#find(key, 0) === MISSING) this.#forget(key);
        return claim;
      }
      return undefined;
    } catch (error) {
      if (!UNKEPT.has(error.code)) throw error;
      warn('unkept', `a value cannot be kept: ${error.message}`);
      return { isMine: true, version: 0n };
    }
  }

  /** Whether the claim is no more. Where the pool went over to new memory meanwhile, there is none. */
  async #wait(key, version, timeout) {
    try {
      return await this.map.wait(key, version, { timeout });
    } catch (error) {
      if (error.code !== 'EIDRM' || !this.map.pool.isOpen) throw error;
      return true;
    }
  }

  #isComputing(key) {
    for (let at = computing.getStore(); at; at = at.outer) if (at.map === this.map && at.key === String(key)) return true;
    return false;
  }

  /** The tags as they are before the computation. Where the pool takes none, it takes no value: the claim is given up. */
  #tagsNow(key, names, claim) {
    if (names === undefined || claim.version === 0n) return undefined;
    try {
      return this.#use((map) => tagged(map, names));
    } catch (error) {
      this.#forget(key, claim.version);
      if (!UNKEPT.has(error.code)) throw error;
      warn('unkept', `a value cannot be kept: ${error.message}`);
      claim.version = 0n;
      return undefined;
    }
  }

  async #compute(key, make, { ttl, tags }, version) {
    const mark = { map: this.map, key: String(key), outer: computing.getStore() };
    let value;
    try {
      value = await computing.run(mark, make, key);
      // A value that was put meanwhile is newer than this one, and so is a deletion.
      if (version !== 0n) this.#put(key, value, { ttl, tags }, native.REPLACE, version);
    } catch (error) {
      if (version !== 0n) this.#forget(key, version);
      if (value === undefined || !UNKEPT.has(error.code)) throw error;
      warn('unkept', `a value was computed, and not kept: ${error.message}`);
    }
    return value;
  }
}

module.exports = { Cache };

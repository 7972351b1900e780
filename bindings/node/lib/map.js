'use strict';

const native = require('./native.js');
const { TslabError } = require('./error.js');
const { Lock } = require('./lock.js');
const slab = require('./slab.js');
const { limitMs, ttlMs, waitMs } = require('./time.js');

const { info, scratch, ABSENT, TOO_LARGE } = native;
const E2BIG = 7;
const EMSGSIZE = 90;
const TAGS_MAX = 4;
const EVICT = { undefined: 0, null: 0, sieve: 1 };

function integer(value, name, max) {
  if (!Number.isInteger(value) || value < 0 || value > max)
    throw new RangeError(`${name} is an integer from 0 to ${max}, not ${value}`);
  return value;
}

function checkCounted(number) {
  if (typeof number !== 'bigint' && !Number.isSafeInteger(number))
    throw new RangeError(`a counter takes integers, and BigInts beyond 2 ** 53, not ${number}`);
}

/**
 * A copy of an entry's tags, or undefined. The call gets the copy, since an array may run a getter when it is read, and
 * that could change the Buffers that the call uses.
 */
function checkedTags(tags) {
  if (tags === undefined) return undefined;
  const copy = Array.isArray(tags) && tags.length <= TAGS_MAX ? Array.from(tags) : [undefined];
  if (copy.length > TAGS_MAX || copy.some((tag) => typeof tag !== 'bigint'))
    throw new TypeError(`tags are an array of up to ${TAGS_MAX} tags, each from tag(); leave them out where an entry has none`);
  return copy;
}

/** The bytes of a value that a call has copied into the scratch memory, as a Buffer of its own. */
function copied(size) {
  const value = Buffer.allocUnsafe(size);
  scratch.copy(value, 0, 0, size);
  return value;
}

/** Byte strings by key, shared by all processes of a pool. Made by Pool.map(). */
class TslabMap {
  #native;
  #getInto; // functions of #native, which has so many that V8 looks each up by its hash
  #getIntoBytes;
  #getSlab;
  #getSlabBytes;
  #getString;
  #getStringBytes;
  #putPlain;
  #options;
  #bound = null;
  #boundLength = -1;

  constructor(pool, name, options = {}) {
    const { existing = false, exclusive = false, ttl, limitBytes = 0, valueMax = 0, stale = 0, evict } = options;
    if (typeof name !== 'string') throw new TypeError('the name of a map is a string');
    if (!(evict in EVICT)) throw new RangeError(`evict is undefined or 'sieve', not ${evict}`);
    this.pool = pool;
    this.name = name;
    this.#options = [
      integer(valueMax, 'valueMax', 0xffffffff),
      stale === 0 ? 0 : limitMs(stale),
      EVICT[evict],
      ttl === Infinity ? 0 : ttlMs(ttl),
      integer(limitBytes, 'limitBytes', Number.MAX_SAFE_INTEGER),
    ];
    this.#open((existing ? 1 : 0) | (exclusive ? 2 : 0));
  }

  #open(flags) {
    const native = this.pool._native.openMap(this.name, flags, ...this.#options);
    this.#native = native;
    this.#getInto = native.getInto;
    this.#getIntoBytes = native.getIntoBytes;
    this.#getSlab = native.getSlab;
    this.#getSlabBytes = native.getSlabBytes;
    this.#getString = native.getString;
    this.#getStringBytes = native.getStringBytes;
    this.#putPlain = native.putPlain;
    this.#bound = null;
  }

  /** Opens the map of this name anew: where the pool has another memory, or the old map was revoked. */
  _reopen() {
    this.#open(0);
  }

  get _native() {
    return this.#native;
  }

  /** The size of the largest value. */
  get sizeMax() {
    return this.#native.sizeMax;
  }

  // Reading

  /** A size, or none: after a call that copied into the scratch memory, where #find() takes larger values. */
  #found(size, key, isTaken, accept) {
    if (size >= 0) return copied(size);
    while (size === TOO_LARGE) {
      const value = Buffer.allocUnsafeSlow(info.valueSize);
      size = this.#native.find(key, accept, isTaken, value);
      if (size >= 0) return size === value.length ? value : value.subarray(0, size);
    }
    return undefined;
  }

  /** The value as a Buffer, or undefined. Up to 4096 bytes share their memory with others, as Node's own Buffers do. */
  get(key) {
    slab.makeRoom();
    if (key instanceof Uint8Array) this.#getSlabBytes(key);
    else this.#getSlab(key);
    const size = info.size;
    if (size >= 0) return slab.take(size);
    return size === ABSENT ? undefined : this.#found(this.#native.find(key, 0, false), key, false, 0);
  }

  /** The value as a string, or undefined. */
  getString(key) {
    const value = key instanceof Uint8Array ? this.#getStringBytes(key) : this.#getString(key);
    if (value !== undefined) return value;
    return info.size === ABSENT ? undefined : this.get(key)?.toString();
  }

  /** Copies a value into a buffer, and returns its size; undefined where there is none. Makes no object. */
  getInto(key, buffer) {
    if (buffer !== this.#bound || buffer.length !== this.#boundLength) this.#bind(buffer);
    if (key instanceof Uint8Array) this.#getIntoBytes(key);
    else this.#getInto(key);
    const size = info.size;
    if (size >= 0) return size;
    if (size === TOO_LARGE) throw new TslabError('map_get', EMSGSIZE);
    return undefined;
  }

  // A buffer is looked at once: its memory stays where it is as long as it has this length.
  #bind(buffer) {
    this.#bound = null;
    this.#native.bind(buffer);
    this.#bound = buffer;
    this.#boundLength = buffer.length;
  }

  /** { value, version, ttl, isStale, isCounter }, or undefined. */
  getWith(key, { stale = false } = {}) {
    const accept = stale ? native.STALE : 0;
    const value = this.#found(this.#native.find(key, accept, false), key, false, accept);
    return value && this.#entry(value);
  }

  #entry(value) {
    const { version, ttlLeftMs, flags } = info;
    return {
      value,
      version,
      ttl: ttlLeftMs === Infinity ? Infinity : Math.max(1, ttlLeftMs) / 1000,
      isStale: (flags & native.STALE) !== 0,
      isCounter: (flags & native.COUNTER) !== 0,
    };
  }

  has(key) {
    return this.#native.find(key, 0, false, NOTHING) !== ABSENT;
  }

  /** The seconds until the entry ends; Infinity: it does not; undefined: it is absent. */
  ttl(key) {
    if (!this.has(key)) return undefined;
    return info.ttlLeftMs === Infinity ? Infinity : Math.max(1, info.ttlLeftMs) / 1000;
  }

  // Changes

  /** With `tags`, up to four of tag(), the entry is absent once invalidate() was called for one of them. */
  put(key, value, options) {
    if (options === undefined) {
      this.#putPlain(key, value);
      return;
    }
    const { ttl, tags } = options;
    this.#native.put(key, value, ttlMs(ttl), native.PUT, 0n, checkedTags(tags));
  }

  /** As put(), if the key is absent: whether it was. */
  insert(key, value, { ttl, tags } = {}) {
    return this.#native.put(key, value, ttlMs(ttl), native.INSERT, 0n, checkedTags(tags));
  }

  /** As put(), if the key is present: whether it was. */
  update(key, value, { ttl, tags } = {}) {
    return this.#native.put(key, value, ttlMs(ttl), native.UPDATE, 0n, checkedTags(tags));
  }

  /** As put(), if the value has this version (0n: if the key is absent): whether it had. */
  replace(key, version, value, { ttl, tags } = {}) {
    return this.#native.put(key, value, ttlMs(ttl), native.REPLACE, BigInt(version), checkedTags(tags));
  }

  /** Whether it was there, with that version if one is named. */
  delete(key, version) {
    return version === undefined ? this.#native.remove(key) : this.#native.remove(key, BigInt(version));
  }

  /** Deletes a key and returns the value that it had: of several callers one gets it. */
  pop(key) {
    return this.#found(this.#native.find(key, 0, true), key, true, 0);
  }

  /**
   * A tag as it is now, a BigInt for puts within an hour. Ask before the value is computed: if the tag is invalidated
   * after that, be it before the put, the entry is absent.
   */
  tag(tag) {
    return this.#native.tag(tag);
  }

  /** Makes all entries that have this tag absent at once, in all processes: whether there was such a tag. */
  invalidate(tag) {
    return this.#native.invalidate(tag);
  }

  /** Gives the entry another lifetime: whether it is there. */
  touch(key, ttl) {
    return this.#native.touch(key, ttlMs(ttl));
  }

  /** Adds to a counter and returns the sum: a BigInt beyond 2 ** 53. */
  add(key, delta = 1, { initial = 0, ttl } = {}) {
    const sum = this._add(key, delta, initial, ttlMs(ttl));
    if (sum === undefined) throw new TypeError('the value is no counter');
    return sum;
  }

  /** As add(); undefined where the value is no counter. */
  _add(key, delta, initial, ms) {
    for (const number of [delta, initial]) checkCounted(number);
    return this.#native.add(key, delta, initial, ms);
  }

  /** Sets a counter in place: adds of others come before it or after it. */
  setCounter(key, number, { ttl } = {}) {
    checkCounted(number);
    if (this.#native.setCounter(key, number, ttlMs(ttl)) === undefined) throw new TypeError('the value is no counter');
  }

  /** Takes tokens of the key's bucket. Returns 0, or the seconds until there are enough. */
  limit(key, perSecond, burst, cost = 1) {
    const ms = this.#native.limit(key, perSecond, integer(burst, 'burst', 0xffffffff), integer(cost, 'cost', 0xffffffff));
    return ms < 0 ? 0 : Math.max(1, ms) / 1000;
  }

  // Claims

  /** Claims a key that is to be computed, for `ttl` seconds: { isMine, version }, or undefined where it has a value. */
  claim(key, { ttl = 30 } = {}) {
    const result = this.#native.claim(key, limitMs(ttl));
    return result === EEXIST ? undefined : { isMine: result === 0, version: info.version };
  }

  /** Lets a claim stand for another `ttl` seconds: its new version, or undefined where it is no more. */
  extend(key, version, { ttl = 30 } = {}) {
    return this.#native.extend(key, limitMs(ttl), version) ? info.version : undefined;
  }

  isClaimed(key, version = 0n) {
    return this.#native.isClaimed(key, version);
  }

  /** Waits until a claim is no more: a promise of true, or of false after `timeout` seconds. The event loop goes on. */
  async wait(key, version = 0n, { timeout = 30 } = {}) {
    return this.pool._wait(this.#native, key, version, waitMs(timeout));
  }

  /** A lock of all processes, on a key that has no value. */
  lock(key, options) {
    return new Lock(this, key, options);
  }

  // All entries

  /** [key, value] of each entry, as Buffers. Others may write meanwhile. */
  *entries() {
    const cursor = new Uint8Array(16);
    while (this.#native.next(cursor)) {
      const { keySize, valueSize, flags } = info;
      const key = copied(keySize);
      if (flags & native.KEY_ONLY) {
        const value = this.get(key);
        if (value !== undefined) yield [key, value];
      } else {
        yield [key, Buffer.from(scratch.subarray(keySize, keySize + valueSize))];
      }
    }
  }

  *keys() {
    const cursor = new Uint8Array(16);
    while (this.#native.next(cursor)) yield copied(info.keySize);
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  /** How many there are, by a walk through all of them. */
  count() {
    return this.#native.count();
  }

  /** Deletes all entries that are there when it begins: how many. */
  clear() {
    return this.#native.clear();
  }

  /** Counts since the map was made; does not walk. */
  stats() {
    return this.#native.stats();
  }
}

const NOTHING = new Uint8Array(0);
const EEXIST = 17;

module.exports = { TslabMap, E2BIG, TAGS_MAX };

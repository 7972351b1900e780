'use strict';
// A cache handler for Next.js (13 and later), which all its processes share. In next.config.js:
//
//     module.exports = { cacheHandler: require.resolve('tslab/next'), cacheMaxMemorySize: 0 };
//
// The pool is that of $TSLAB_POOL, or "default". Entries of the map "next" that were not used for long make room. The map
// "next-tags" counts revalidations: an entry knows the count at which it was begun, and a tag that of its last one.

const { createHash } = require('node:crypto');
const { Cache } = require('../lib/cache.js');
const { TslabError, warn } = require('../lib/error.js');
const { open } = require('../lib/pool.js');

const BEGUN_MAX = 10000;
const NAME_MAX = 200; // of characters; more may be more than a key of the map can have
const AGAIN_MS = 5000;
let cache;
let tags;
let nextTry = 0;

function opened() {
  if (cache !== undefined) return cache;
  const pool = open();
  tags = pool.map('next-tags');
  cache = new Cache(pool, { name: 'next', serializer: 'v8', evict: 'sieve', valueMax: 16 << 20 });
  return cache;
}

/** As opened(). Where there is no pool, as while an image of the program is built, all entries are absent: undefined. */
function tryOpened() {
  if (cache !== undefined) return cache;
  if (performance.now() < nextTry) return undefined;
  try {
    return opened();
  } catch (error) {
    if (!(error instanceof TslabError)) throw error;
    nextTry = performance.now() + AGAIN_MS;
    warn('next', `nothing is cached: ${error.message}`);
    return undefined;
  }
}

const count = () => Number(tags.getWith('count')?.value.readBigInt64LE() ?? 0n);

/** The key of an entry or a tag. A long name is known by its hash, to all calls alike. */
function keyOf(kind, name) {
  return name.length <= NAME_MAX ? `${kind}:${name}` : `${kind}#${createHash('sha256').update(name).digest('base64url')}`;
}

/** The record of a tag: the counts at which it expired, and became stale; the entries from before that end `at` a time. */
const recordFrom = (text) => (text === undefined ? { expired: 0, stale: 0, at: null } : JSON.parse(text));
const recordOf = (tag) => recordFrom(tags.getString(keyOf('tag', tag)));

/** Changes the record of a tag as if nobody else did. */
function change(tag, make) {
  const key = keyOf('tag', tag);
  for (;;) {
    const entry = tags.getWith(key);
    const record = make(recordFrom(entry?.value));
    if (tags.replace(key, entry?.version ?? 0n, JSON.stringify(record))) return;
  }
}

/** Seconds until an entry is to be made anew; false: never. */
const revalidateOf = ({ value, cacheControl, revalidate }, context) =>
  cacheControl?.revalidate ?? context.revalidate ?? value?.revalidate ?? revalidate ?? false;

/** An entry that Next.js returns, and makes anew meanwhile: it takes one for stale by its age. */
function asStale(entry, revalidate) {
  const seconds = typeof revalidate === 'number' ? revalidate : 1;
  const cacheControl = entry.cacheControl && { ...entry.cacheControl, revalidate: seconds };
  return { ...entry, cacheControl, lastModified: Math.min(entry.lastModified, Date.now() - seconds * 1000 - 1) };
}

/** Next.js makes one for each request: so two requests that make the same entry know each its own count. */
module.exports = class TslabCacheHandler {
  #revalidated;
  #since; // the count when the request began
  // The counts at which it began to make entries, the lowest of each key, and how often it began: a revalidation after that
  // counts, also if it comes before the entry is set.
  #begun = new Map();
  #found = new WeakMap(); // the counts of values that it returned

  constructor({ revalidatedTags = [] } = {}) {
    this.#revalidated = revalidatedTags;
    if (tryOpened() !== undefined) this.#since = count();
  }

  #begin(key) {
    const { since, n } = this.#begun.get(key) ?? { since: count(), n: 0 };
    if (n === 0 && this.#begun.size === BEGUN_MAX) this.#begun.delete(this.#begun.keys().next().value);
    this.#begun.set(key, { since, n: n + 1 });
  }

  /** The count at which the making of a key's entry began; undefined: there was no pool then. */
  #end(key) {
    const { since, n } = this.#begun.get(key) ?? { since: this.#since, n: 1 };
    if (n > 1) this.#begun.set(key, { since, n: n - 1 });
    else this.#begun.delete(key);
    return since;
  }

  /** null: it is absent, or one of its tags has expired since. */
  async get(key, context = {}) {
    const kept = tryOpened();
    if (kept === undefined) return null;
    const entry = kept.get(keyOf('entry', key));
    const isKnown = Number.isFinite(entry?.since); // if not, nobody knows what was revalidated since
    const records = isKnown && [...entry.tags, ...(context.tags ?? []), ...(context.softTags ?? [])].map(recordOf);
    const isOver = ({ expired, stale, at }) => expired > entry.since || (stale > entry.since && at !== null && at <= Date.now());
    if (!isKnown || records.some(isOver) || entry.tags.some((tag) => this.#revalidated.includes(tag))) {
      this.#begin(key);
      return null;
    }
    if (typeof entry.value === 'object' && entry.value !== null) this.#found.set(entry.value, entry.since);
    const revalidate = revalidateOf(entry, context);
    const isStale = records.some(({ stale }) => stale > (entry.triedAt ?? entry.since));
    if (isStale || (typeof revalidate === 'number' && Date.now() - entry.lastModified > revalidate * 1000)) this.#begin(key);
    return isStale ? asStale(entry, revalidate) : entry;
  }

  async set(key, value, { tags: given = [], revalidate, cacheControl } = {}) {
    const kept = tryOpened();
    if (kept === undefined) return undefined;
    const begun = this.#end(key);
    if (value === null) return void kept.delete(keyOf('entry', key));
    if (begun === undefined) return undefined;
    // Where a new value could not be made, Next.js sets the old one again, to be tried again later: it is as old as it was.
    const { since = begun, triedAt = undefined } = this.#found.has(value) ? { since: this.#found.get(value), triedAt: begun } : {};
    const header = value?.headers?.['x-next-cache-tags'];
    const all = [...given, ...(value?.tags ?? []), ...(typeof header === 'string' ? header.split(',') : [])];
    const entry = { value, lastModified: Date.now(), since, triedAt, tags: [...new Set(all)], revalidate, cacheControl };
    return void kept.trySet(keyOf('entry', key), entry);
  }

  /** With `durations` the entries are stale, and expire after `durations.expire` seconds if that is told. */
  async revalidateTag(names, durations) {
    opened();
    for (const tag of [names].flat()) {
      // In new memory the count goes on beyond that of the old one: what was begun before is older than what is counted now.
      const n = tags.add('count', 1, { initial: Date.now() * 1000 });
      const at = durations?.expire === undefined ? null : Date.now() + durations.expire * 1000;
      if (durations === undefined) change(tag, (record) => ({ ...record, expired: Math.max(record.expired, n) }));
      else change(tag, (record) => ({ ...record, stale: Math.max(record.stale, n), at }));
    }
  }

  resetRequestCache() {}
};

'use strict';
// A cache handler for Next.js (13 and later), which all its processes share. In next.config.js:
//
//     module.exports = { cacheHandler: require.resolve('tslab/next'), cacheMaxMemorySize: 0 };
//
// The pool is that of $TSLAB_POOL, or "default". Entries of the map "next" that were not used for long make room. The map
// "next-tags" counts revalidations: an entry knows the count at which it was begun, and a tag that of its last one.

const { Cache } = require('../lib/cache.js');
const { TslabError, warn } = require('../lib/error.js');
const { open } = require('../lib/pool.js');

const BEGUN_MAX = 10000;
const AGAIN_MS = 5000;
let cache;
let tags;
let nextTry = 0;
// The count at which this process began to make an entry: a revalidation after that counts, also if it comes before the
// entry is set.
const begun = new Map();

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

function begin(key) {
  if (begun.has(key)) return;
  if (begun.size === BEGUN_MAX) begun.delete(begun.keys().next().value);
  begun.set(key, count());
}

/** The record of a tag: the counts at which it expired, and became stale; the entries from before that end `at` a time. */
const recordFrom = (text) => (text === undefined ? { expired: 0, stale: 0, at: null } : JSON.parse(text));
const recordOf = (tag) => recordFrom(tags.getString(`tag:${tag}`));

/** Changes the record of a tag as if nobody else did. */
function change(tag, make) {
  for (;;) {
    const entry = tags.getWith(`tag:${tag}`);
    const record = make(recordFrom(entry?.value));
    if (tags.replace(`tag:${tag}`, entry?.version ?? 0n, JSON.stringify(record))) return;
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

module.exports = class TslabCacheHandler {
  #revalidated;

  constructor({ revalidatedTags = [] } = {}) {
    this.#revalidated = revalidatedTags;
  }

  /** null: it is absent, or one of its tags has expired since. */
  async get(key, context = {}) {
    const kept = tryOpened();
    if (kept === undefined) return null;
    const entry = kept.get(`entry:${key}`);
    const records = entry && [...entry.tags, ...(context.tags ?? []), ...(context.softTags ?? [])].map(recordOf);
    const isOver = ({ expired, stale, at }) => expired > entry.since || (stale > entry.since && at !== null && at <= Date.now());
    if (entry === undefined || records.some(isOver) || entry.tags.some((tag) => this.#revalidated.includes(tag))) {
      begin(key);
      return null;
    }
    const revalidate = revalidateOf(entry, context);
    const isStale = records.some(({ stale }) => stale > entry.since);
    if (isStale || (typeof revalidate === 'number' && Date.now() - entry.lastModified > revalidate * 1000)) begin(key);
    return isStale ? asStale(entry, revalidate) : entry;
  }

  async set(key, value, { tags: given = [], revalidate, cacheControl } = {}) {
    const kept = tryOpened();
    if (kept === undefined) return undefined;
    const since = begun.get(key) ?? count();
    begun.delete(key);
    if (value === null) return void kept.delete(`entry:${key}`);
    const header = value?.headers?.['x-next-cache-tags'];
    const all = [...given, ...(value?.tags ?? []), ...(typeof header === 'string' ? header.split(',') : [])];
    const entry = { value, lastModified: Date.now(), since, tags: [...new Set(all)], revalidate, cacheControl };
    return void kept.trySet(`entry:${key}`, entry);
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

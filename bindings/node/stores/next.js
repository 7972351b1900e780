'use strict';
// A cache handler for Next.js (13 and later), which all its processes share. In next.config.js:
//
//     module.exports = { cacheHandler: require.resolve('tslab/next'), cacheMaxMemorySize: 0 };
//
// The pool is that of $TSLAB_POOL, or "default". Entries of the map "next" that were not used for long make room; the map
// "next-tags" is that of next-tags.js.
//
// A page is of one build, and names files that others lack: so its key has the build's id, and each build finds its own
// pages alone, as in Next.js's own cache. What was fetched serves the next build, too, and so do images.

const { readFileSync } = require('node:fs');
const path = require('node:path');
const { Cache } = require('../lib/cache.js');
const { FRESH, OVER, STALE, keyOf, opened, tryOpened } = require('./next-tags.js');

const BEGUN_MAX = 10000;
const builds = new Map(); // folder of a build -> its id
let cache;

/** The id of the build; '': it has none, as in development, or none yet. */
function buildOf(folder) {
  if (typeof folder !== 'string') return '';
  let id = builds.get(folder);
  if (id !== undefined) return id;
  try {
    id = encodeURIComponent(readFileSync(path.join(folder, '..', 'BUILD_ID'), 'utf8').trim());
    if (id !== '') builds.set(folder, id); // it is empty for a moment while it is written
    return id;
  } catch {
    return '';
  }
}

const isFetched = (value) => value?.kind === 'FETCH' || value?.kind === 'IMAGE';

/** { cache, tags }, or undefined. */
function tryMaps() {
  const maps = tryOpened();
  if (maps === undefined) return undefined;
  cache ??= new Cache(maps.pool, { name: 'next', serializer: 'v8', evict: 'sieve', valueMax: 16 << 20 });
  return { cache, tags: maps.tags };
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
  #build;

  constructor({ revalidatedTags = [], serverDistDir } = {}) {
    this.#revalidated = revalidatedTags;
    this.#build = buildOf(serverDistDir);
    this.#since = tryMaps()?.tags.now();
  }

  #pageKey(key) {
    return keyOf('page', `${this.#build}:${key}`);
  }

  #entryOf(key) {
    const page = cache.get(this.#pageKey(key));
    if (page !== undefined) return page;
    const entry = cache.get(keyOf('entry', key));
    return isFetched(entry?.value) ? entry : undefined;
  }

  #begin(key, tags) {
    const { since, n } = this.#begun.get(key) ?? { since: tags.now(), n: 0 };
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
    const maps = tryMaps();
    if (maps === undefined) return null;
    const entry = this.#entryOf(key);
    const names = [...(entry?.tags ?? []), ...(context.tags ?? []), ...(context.softTags ?? [])];
    const state = names.some((tag) => this.#revalidated.includes(tag)) ? OVER : maps.tags.look(entry?.since, names, entry?.triedAt);
    const revalidate = state === OVER ? undefined : revalidateOf(entry, context);
    const isOld = typeof revalidate === 'number' && Date.now() - entry.lastModified > revalidate * 1000;
    if (state !== FRESH || isOld) this.#begin(key, maps.tags);
    if (state === OVER) return null;
    if (typeof entry.value === 'object' && entry.value !== null) this.#found.set(entry.value, entry.since);
    return state === STALE ? asStale(entry, revalidate) : entry;
  }

  async set(key, value, { tags: given = [], revalidate, cacheControl } = {}) {
    const maps = tryMaps();
    if (maps === undefined) return undefined;
    const begun = this.#end(key);
    if (value === null) return void maps.cache.delete(this.#pageKey(key));
    if (begun === undefined) return undefined;
    // Where a new value could not be made, Next.js sets the old one again, to be tried again later: it is as old as it was.
    const { since = begun, triedAt = undefined } = this.#found.has(value) ? { since: this.#found.get(value), triedAt: begun } : {};
    const header = value?.headers?.['x-next-cache-tags'];
    const all = [...given, ...(value?.tags ?? []), ...(typeof header === 'string' ? header.split(',') : [])];
    const entry = { value, lastModified: Date.now(), since, triedAt, tags: [...new Set(all)], revalidate, cacheControl };
    return void maps.cache.trySet(isFetched(value) ? keyOf('entry', key) : this.#pageKey(key), entry);
  }

  /** With `durations` the entries are stale, and expire after `durations.expire` seconds if that is told. */
  async revalidateTag(names, durations) {
    await opened().tags.update([names].flat(), durations);
  }

  resetRequestCache() {}
};

'use strict';
// A cache handler for 'use cache' of Next.js (16 and later), which all its processes share. In next.config.js:
//
//     const handler = require.resolve('tslab/next-use-cache');
//     module.exports = { cacheComponents: true, cacheHandlers: { default: handler, remote: handler } };
//
// The pool is that of $TSLAB_POOL, or "default". Entries of the map "next-use-cache" that were not used for long make room;
// the map "next-tags" is that of next-tags.js, which tslab/next shares.

const { Cache } = require('../lib/cache.js');
const { TslabError, warn } = require('../lib/error.js');
const { lifetimeOfMs } = require('../lib/time.js');
const { OVER, STALE, keyOf, opened, tryOpened } = require('./next-tags.js');

const COUNTS_MAX = 10000;
const counts = []; // { at, count }: what the count of revalidations was from a time on, by this process's clock
const sets = new Map(); // promises of those that are under way
let cache;

const now = () => performance.timeOrigin + performance.now(); // as Next.js tells the time

/** What `use` returns of { cache, tags }; undefined: there is no pool. */
function attempt(use) {
  try {
    const maps = tryOpened();
    if (maps === undefined) return undefined;
    cache ??= new Cache(maps.pool, { name: 'next-use-cache', serializer: 'v8', evict: 'sieve', valueMax: 16 << 20 });
    return use({ cache, tags: maps.tags });
  } catch (error) {
    if (!(error instanceof TslabError)) throw error;
    warn('next-use-cache', `an entry counts as absent: ${error.message}`);
    return undefined;
  }
}

/** Before an entry is begun. The time is taken after the count: all that is begun from then on is from after the count. */
function observe(tags) {
  const count = tags.now();
  if (count === counts.at(-1)?.count) return;
  counts.push({ count, at: now() });
  if (counts.length > COUNTS_MAX) counts.splice(0, COUNTS_MAX / 2);
}

/** The count when an entry was begun, or one from before; undefined: that was too long ago. */
const countAt = (time) => counts.findLast(({ at }) => at <= time)?.count;

async function store(key, pending) {
  const { value, ...entry } = await pending;
  const since = countAt(entry.timestamp);
  const left = entry.timestamp + entry.expire * 1000 - now();
  if (since === undefined || !(left > 0)) return void (await value.cancel());
  const data = Buffer.from(await new Response(value).arrayBuffer());
  attempt((maps) => maps.cache.trySet(keyOf('entry', key), { ...entry, data, since }, { ttl: lifetimeOfMs(left) }));
  return undefined;
}

module.exports = {
  /** undefined: it is absent, or one of its tags has expired since. */
  async get(key, softTags = []) {
    await sets.get(key);
    return attempt(({ cache, tags }) => {
      observe(tags);
      const { data, since, ...entry } = cache.get(keyOf('entry', key)) ?? {};
      const state = tags.look(since, [...(entry.tags ?? []), ...softTags]);
      if (state === OVER) return undefined;
      const value = new ReadableStream({
        start(controller) {
          controller.enqueue(data);
          controller.close();
        },
      });
      return { ...entry, value, revalidate: state === STALE ? -1 : entry.revalidate };
    });
  },

  /** An entry whose stream fails is not kept. */
  async set(key, pending) {
    const done = store(key, pending).catch((error) => warn('next-use-cache', `an entry was not kept: ${error?.message ?? error}`));
    sets.set(key, done);
    await done;
    if (sets.get(key) === done) sets.delete(key);
  },

  async refreshTags() {
    attempt(({ tags }) => observe(tags));
  },

  /** get() looks at all tags. */
  async getExpiration() {
    return Infinity;
  },

  /** With `durations` the entries are stale, and expire after `durations.expire` seconds if that is told. */
  async updateTags(names, durations) {
    await opened().tags.update(names, durations);
  },
};

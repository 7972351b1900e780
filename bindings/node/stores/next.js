'use strict';
// A cache handler for Next.js (13 and later), which all its processes share. In next.config.js:
//
//     module.exports = { cacheHandler: require.resolve('tslab/next'), cacheMaxMemorySize: 0 };
//
// The pool is that of $TSLAB_POOL, or "default". Entries of the map "next" that were not used for long make room.

const { Cache } = require('../lib/cache.js');
const { open } = require('../lib/pool.js');

let cache;

const opened = () => (cache ??= new Cache(open(), { name: 'next', serializer: 'v8', evict: 'sieve', valueMax: 16 << 20 }));
const tagKey = (tag) => `tag:${tag}`;

module.exports = class TslabCacheHandler {
  #tags = [];

  constructor({ revalidatedTags = [] } = {}) {
    this.#tags = revalidatedTags;
  }

  /** null: it is absent, or one of its tags was revalidated since. */
  async get(key, { tags = [], softTags = [] } = {}) {
    const entry = opened().get(`entry:${key}`);
    if (entry === undefined) return null;
    const all = new Set([...entry.tags, ...tags, ...softTags]);
    for (const tag of all)
      if (this.#tags.includes(tag) || (opened().get(tagKey(tag)) ?? -1) >= entry.lastModified) return null;
    return entry;
  }

  async set(key, value, { tags = [], revalidate } = {}) {
    if (value === null) return void opened().delete(`entry:${key}`);
    const header = value?.headers?.['x-next-cache-tags'];
    const all = [...tags, ...(value?.tags ?? []), ...(typeof header === 'string' ? header.split(',') : [])];
    const entry = { value, lastModified: Date.now(), tags: [...new Set(all)], revalidate };
    opened().trySet(`entry:${key}`, entry);
    return undefined;
  }

  async revalidateTag(tags) {
    for (const tag of [tags].flat()) opened().set(tagKey(tag), Date.now());
  }

  resetRequestCache() {}
};

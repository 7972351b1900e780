'use strict';
// A store for cache-manager 5, of which later versions take that for keyv:
//
//     const cache = await caching(new CacheManagerTslab(tslab.open()));

const { Cache } = require('../lib/cache.js');
const { lifetimeOfMs } = require('../lib/time.js');

/** A pattern of file names, as other stores take them, as a regular expression. */
function expressionOf(pattern) {
  const quoted = pattern.replace(/[.+^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${quoted.replaceAll('*', '.*').replaceAll('?', '.')}$`, 's');
}

/** Lifetimes are milliseconds, as everywhere in cache-manager. */
class CacheManagerTslab {
  /** `options` are those of Cache. */
  constructor(pool, options = {}) {
    this.cache = new Cache(pool, { name: 'cache-manager', ...options });
  }

  async get(key) {
    return this.cache.get(key);
  }

  async mget(...keys) {
    return keys.map((key) => this.cache.get(key));
  }

  async set(key, value, ttl) {
    this.cache.trySet(key, value, { ttl: ttl > 0 ? lifetimeOfMs(ttl) : undefined });
  }

  async mset(entries, ttl) {
    for (const [key, value] of entries) await this.set(key, value, ttl);
  }

  async del(key) {
    this.cache.delete(key);
  }

  async mdel(...keys) {
    this.cache.deleteMany(keys);
  }

  async reset() {
    this.cache.clear();
  }

  async keys(pattern = '*') {
    const expression = expressionOf(pattern);
    return Array.from(this.cache.map.keys(), String).filter((key) => expression.test(key));
  }

  /** -1: it has no end; -2: it is absent. */
  async ttl(key) {
    const left = this.cache.ttl(key);
    if (left === undefined) return -2;
    return left === Infinity ? -1 : left * 1000;
  }
}

module.exports = { CacheManagerTslab };

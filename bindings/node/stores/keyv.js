'use strict';
// A store for keyv, and so for cache-manager 6 and later:  new Keyv({ store: new KeyvTslab(tslab.open()) })

const { Cache } = require('../lib/cache.js');
const { lifetimeOfMs } = require('../lib/time.js');

class KeyvTslab {
  /** `options` are those of Cache. */
  constructor(pool, options = {}) {
    this.cache = new Cache(pool, { name: 'keyv', ...options });
    this.opts = { dialect: 'redis', url: '' }; // keyv 4 and 5 iterate over stores of the dialects that they know
    this.namespace = undefined; // keyv sets it
  }

  async get(key) {
    return this.cache.get(key);
  }

  async getMany(keys) {
    return keys.map((key) => this.cache.get(key));
  }

  async has(key) {
    return this.cache.has(key);
  }

  async hasMany(keys) {
    return keys.map((key) => this.cache.has(key));
  }

  /** `ttl` is milliseconds, as everywhere in keyv. */
  async set(key, value, ttl) {
    return this.cache.trySet(key, value, { ttl: ttl > 0 ? lifetimeOfMs(ttl) : undefined });
  }

  async setMany(entries) {
    return Promise.all(entries.map(({ key, value, ttl }) => this.set(key, value, ttl)));
  }

  async delete(key) {
    return this.cache.delete(key);
  }

  async deleteMany(keys) {
    return keys.map((key) => this.cache.delete(key)).every(Boolean);
  }

  #isMine(key) {
    return this.namespace === undefined || key.startsWith(`${this.namespace}:`);
  }

  /** Of this namespace, or of all where there is none. */
  async clear() {
    if (this.namespace === undefined) this.cache.clear();
    else for (const key of this.cache.map.keys()) if (this.#isMine(String(key))) this.cache.delete(key);
  }

  async *iterator() {
    for (const bytes of this.cache.map.keys()) {
      const key = String(bytes);
      const value = this.#isMine(key) ? this.cache.get(key) : undefined;
      if (value !== undefined) yield [key, value];
    }
  }

  /** The pool is the program's, which closes it. */
  async disconnect() {}

  on() {
    return this; // keyv listens for errors of stores that have events
  }
}

module.exports = { KeyvTslab, default: KeyvTslab };

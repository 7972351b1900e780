'use strict';

const { LockLostError, TslabError } = require('./error.js');

const EEXIST = 17;

/**
 * A lock of all processes, made by Map.lock() and Cache.lock(). It becomes free when it is released, when the process of
 * its owner ends, when its `ttl` is over since it was acquired or extended, and when the map is cleared.
 */
class Lock {
  #map;
  #version = 0n;

  constructor(map, key, { ttl = 30 } = {}) {
    this.#map = map;
    this.key = key;
    this.ttl = ttl;
  }

  /** Acquires it at once: whether it did. */
  tryAcquire() {
    return this.#try() === undefined;
  }

  #try() {
    if (this.#version !== 0n) throw new Error(`the lock ${JSON.stringify(this.key)} is held, and would wait for itself`);
    const claim = this.#map.claim(this.key, { ttl: this.ttl });
    if (claim === undefined) throw new TslabError('map_claim', EEXIST);
    if (!claim.isMine) return claim.version;
    this.#version = claim.version;
    return undefined;
  }

  /** A promise of whether it is acquired; waits for `timeout` seconds at most. */
  async acquire({ timeout = Infinity } = {}) {
    const end = performance.now() + timeout * 1000;
    for (;;) {
      const other = this.#try();
      if (other === undefined) return true;
      const left = (end - performance.now()) / 1000;
      if (!(left > 0) || !(await this.#map.wait(this.key, other, { timeout: left }))) return false;
    }
  }

  /** Holds it for another `ttl` from now. LockLostError: it is no longer held. */
  extend(ttl = this.ttl) {
    const version = this.#version && this.#map.extend(this.key, this.#version, { ttl });
    this.#version = version || 0n;
    if (!version) throw new LockLostError(this.key);
  }

  /** Whether it was held until now. */
  release() {
    const version = this.#version;
    this.#version = 0n;
    return version !== 0n && this.#map.delete(this.key, version);
  }

  /** Whether anybody has it. */
  isLocked() {
    return this.#map.isClaimed(this.key);
  }

  /** Runs a function while it holds the lock, and releases it: a promise of its result. */
  async use(work, options) {
    if (!(await this.acquire(options))) return undefined;
    let result;
    try {
      result = await work(this);
    } catch (error) {
      this.release();
      throw error;
    }
    if (!this.release()) throw new LockLostError(this.key);
    return result;
  }
}

module.exports = { Lock };

'use strict';
// A store for rate-limiter-flexible, whose limits then hold over all processes:
//
//     const flexible = require('rate-limiter-flexible');
//     const RateLimiterTslab = require('tslab/rate-limiter-flexible')(flexible);
//     const limiter = new RateLimiterTslab({ pool: tslab.open(), points: 5, duration: 1 });

const { lifetimeOfMs } = require('../lib/time.js');

// The package does not export the class that all of its stores extend.
module.exports = ({ RateLimiterRedis, RateLimiterRes }) =>
  class RateLimiterTslab extends Object.getPrototypeOf(RateLimiterRedis) {
    #name;
    #map;

    /** The pool, which other stores of the package call `storeClient`, and the package's own options. */
    constructor({ pool, storeClient = pool, map = 'rate-limiter', ...options }) {
      super(options);
      this.client = storeClient;
      this.#name = map;
    }

    /** Opened by the first call: where the pool does not answer, the promise is rejected, or `insuranceLimiter` limits. */
    get map() {
      return (this.#map ??= this.client.map(this.#name));
    }

    async _upsert(key, points, durationMs, isForced = false) {
      const ttl = durationMs > 0 ? lifetimeOfMs(durationMs) : Infinity;
      if (isForced) {
        // In place, so no points of others are lost; one that ends just then is begun anew.
        do this.map.setCounter(key, points, { ttl });
        while (!this.map.touch(key, ttl));
        return [points, ttl];
      }
      const sum = this.map.add(key, points, { ttl });
      return [sum, this.map.ttl(key) ?? ttl];
    }

    async _get(key) {
      const entry = this.map.getWith(key);
      return entry === undefined ? null : [Number(entry.value.readBigInt64LE()), entry.ttl];
    }

    async _delete(key) {
      return this.map.delete(key);
    }

    _getRateLimiterRes(key, points, [sum, ttl]) {
      const isFirst = points === sum;
      const msBeforeNext = ttl === Infinity ? -1 : Math.round(ttl * 1000);
      return new RateLimiterRes(Math.max(this.points - sum, 0), msBeforeNext, sum, isFirst);
    }
  };

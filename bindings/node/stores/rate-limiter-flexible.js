'use strict';
// A store for rate-limiter-flexible, whose limits then hold over all processes:
//
//     const flexible = require('rate-limiter-flexible');
//     const RateLimiterTslab = require('tslab/rate-limiter-flexible')(flexible);
//     const limiter = new RateLimiterTslab({ pool: tslab.open(), points: 5, duration: 1 });

// The package does not export the class that all of its stores extend.
module.exports = ({ RateLimiterRedis, RateLimiterRes }) =>
  class RateLimiterTslab extends Object.getPrototypeOf(RateLimiterRedis) {
    constructor({ pool, map = 'rate-limiter', ...options }) {
      super({ ...options, storeClient: pool });
      this.map = pool.map(map);
    }

    async _upsert(key, points, durationMs, isForced = false) {
      const ttl = durationMs > 0 ? durationMs / 1000 : Infinity;
      if (isForced) this.map.delete(key);
      const sum = this.map.add(key, points, { ttl });
      return [sum, this.map.ttl(key) ?? ttl];
    }

    async _get(key) {
      const ttl = this.map.ttl(key);
      return ttl === undefined ? null : [this.map.add(key, 0), ttl];
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

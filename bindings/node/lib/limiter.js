'use strict';

const { counted } = require('./value.js');

/** A limit of a rate for each key, that holds over all processes: buckets that get `perSecond` tokens, up to `burst`. */
class Limiter {
  constructor(pool, name, perSecond, burst) {
    this.map = pool.map(name);
    this.perSecond = perSecond;
    this.burst = burst;
    this.map.limit('', perSecond, burst, 0); // refuses what is out of range
  }

  /** Takes tokens: 0, or the seconds until there are enough, and none are taken. */
  take(key, cost = 1) {
    return this.map.limit(key, this.perSecond, this.burst, cost);
  }

  allow(key, cost = 1) {
    return this.take(key, cost) === 0;
  }
}

/** A number that all processes add to. */
class Counter {
  constructor(map, key) {
    this.map = map;
    this.key = key;
  }

  add(delta = 1) {
    return this.map.add(this.key, delta);
  }

  get value() {
    return this.map.add(this.key, 0);
  }

  /** Begins at 0 again: the number that it had. */
  reset() {
    const data = this.map.pop(this.key);
    return data === undefined ? 0 : counted(data);
  }
}

module.exports = { Limiter, Counter };

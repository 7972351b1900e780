'use strict';

const { addon } = require('./native.js');
const { openStarted } = require('./daemon.js');
const { makeError, warn } = require('./error.js');
const { TslabMap } = require('./map.js');
const { waitMs } = require('./time.js');

const LOOK_MS = 1000;
const START_SECONDS = 30;
const EIDRM = 43;

/** A pool of shared memory, open in this thread. Threads of a process that open the same one share it. */
class Pool {
  #open;
  #maps = new Map();
  #waits = new Map();
  #timer;

  /** By open() and create(). */
  constructor(name, { reader = false, timeout = 5, size = 0, start = false } = {}) {
    this.name = name;
    this.#open = () => addon.openPool(name, reader, waitMs(timeout), size, (wait, result) => this.#tell(wait, result));
    this._native = start ? openStarted(this.#open, name, start, START_SECONDS) : this.#open();
    this.isOpen = true;
    if (name === null) return;
    this.#timer = setInterval(() => this.#look(), LOOK_MS);
    this.#timer.unref();
  }

  /** The map of that name, which is made where there is none; then the options count. */
  map(name, options) {
    let map = this.#maps.get(name);
    if (map === undefined || options?.exclusive) {
      map = new TslabMap(this, name, options);
      this.#maps.set(name, map);
    }
    return map;
  }

  /** Counts of the whole pool. Walks through the slabs in use: some milliseconds for a GiB. */
  stats() {
    return this._native.stats();
  }

  /** A promise of whether the daemon has another arena. The pool looks each second by itself, and goes over to it. */
  stale() {
    return this._native.look();
  }

  async #look() {
    try {
      if (this.isOpen && (await this._native.look()) && this.isOpen) this.#goOver();
    } catch (error) {
      warn(`look ${this.name}`, `the pool ${this.name} cannot be looked after: ${error.message}`);
    }
  }

  /** Where the new pool cannot be opened, the old memory will do until the next look. */
  #goOver() {
    const old = this._native;
    this._native = this.#open();
    try {
      for (const map of this.#maps.values()) map._reopen();
    } finally {
      this.#settle(-EIDRM);
      old.close();
    }
    warn(`replaced ${this.name}`, `the daemon of pool ${this.name || '"default"'} has new memory; its maps begin anew`);
  }

  /** Closes it in this thread. Waits of its maps are rejected. */
  close() {
    if (!this.isOpen) return;
    this.isOpen = false;
    clearInterval(this.#timer);
    this._native.close();
    this.#settle(-EIDRM);
  }

  // Waits

  _wait(map, key, version, timeoutMs) {
    return new Promise((resolve, reject) => {
      this.#waits.set(map.wait(key, version, timeoutMs), { resolve, reject });
    });
  }

  #tell(wait, result) {
    const waiting = this.#waits.get(wait);
    this.#waits.delete(wait);
    if (waiting === undefined) return;
    if (result === 0) waiting.resolve(true);
    else if (result === -ETIMEDOUT) waiting.resolve(false);
    else waiting.reject(makeError('map_wait', -result));
  }

  #settle(result) {
    for (const wait of [...this.#waits.keys()]) this.#tell(wait, result);
  }
}

const ETIMEDOUT = 110;

/**
 * Opens the pool of that name or socket; without one $TSLAB_POOL, or "default". With `start` its daemon is started where
 * there is none, and ends when no process was connected for `start.idle` seconds.
 */
function open(name = '', options = {}) {
  if (typeof name !== 'string') throw new TypeError('the name of a pool is a string');
  return new Pool(name, options);
}

/** Creates a private pool, for the threads and tests of this process: no other process can open it. */
function create(options = {}) {
  return new Pool(null, options);
}

module.exports = { Pool, open, create };

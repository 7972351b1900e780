'use strict';
// Loaded before a suite of another package (test-suites.js): its own store is ours, in a pool of the daemon in $TSLAB_POOL.
// Usage: node --require suites.js …, with TSLAB_TEST_SUITE as the package's name.

const Module = require('node:module');
const path = require('node:path');

const PACKAGE = process.env.TSLAB_TEST_PACKAGE;
const tslab = require(PACKAGE);
const stores = (name) => require(path.join(PACKAGE, 'stores', `${name}.js`));
const own = Module.createRequire(path.join(process.cwd(), 'index.js')); // the suite runs in its package's folder
let n = 0;

/** Requests of such names give this. */
function replace(names, exports) {
  const load = Module._load;
  Module._load = function (name, ...rest) {
    return names.test(name) ? exports : load.call(this, name, ...rest);
  };
}

/** Each store of the suite is one of ours, with sessions of its own. */
function useSessions() {
  const Ours = stores('express-session')({ Store: own('./session/store.js') });
  class MemoryStore extends Ours {
    constructor() {
      super(pool, { name: `${process.pid}.${n++}` });
    }
  }
  const pool = tslab.open();
  const file = own.resolve('./session/memory.js');
  own(file);
  require.cache[file].exports = MemoryStore;
}

/** Clients of other engines are pools, which the suite also asks for single keys, empties and closes. */
function client() {
  const pool = tslab.open();
  const map = () => pool.map('rate-limiter');
  const read = (key) => map().getWith(key)?.value.readBigInt64LE();
  return Object.assign(pool, {
    get: (key, callback) => (callback ? callback(undefined, Number(read(key))) : Promise.resolve(read(key)?.toString() ?? null)),
    flush: (callback) => callback(undefined, map().clear()),
    flushAll: async () => map().clear(),
    connect: async () => {},
    quit: async () => pool.close(),
  });
}

const SUITES = {
  'express-session': useSessions,
  'rate-limiter-flexible': () => {
    replace(/lib\/RateLimiter(Memcache|Redis)$/, stores('rate-limiter-flexible')(own('./index.js')));
    replace(/^memcached-mock$/, client);
    replace(/^redis$/, { createClient: client });
  },
};

SUITES[process.env.TSLAB_TEST_SUITE]();

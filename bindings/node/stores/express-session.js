'use strict';
// A store for express-session and packages that take its stores:
//
//     const session = require('express-session');
//     const Store = require('tslab/express-session')(session);
//     app.use(session({ store: new Store(tslab.open()), secret: '...', resave: false, saveUninitialized: false }));

const { Cache } = require('../lib/cache.js');
const { TslabError, warn } = require('../lib/error.js');
const { lifetimeOfMs } = require('../lib/time.js');

const DAY = 86400;

/** Another program may have put something else there. */
const isSession = (value) =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);

module.exports = ({ Store }) =>
  class TslabStore extends Store {
    /** `options` are those of Cache; `ttl` is for sessions whose cookie has no end of its own. */
    constructor(pool, options = {}) {
      super();
      this.cache = new Cache(pool, { name: 'sessions', ttl: DAY, ...options });
    }

    #answer(callback, work) {
      let result;
      try {
        result = work();
      } catch (error) {
        return callback && setImmediate(callback, error);
      }
      return callback && setImmediate(callback, null, result);
    }

    /** undefined: that of the store, also where the cookie has no valid date; 0: it is over. */
    #ttl({ cookie } = {}) {
      const { expires, maxAge, originalMaxAge } = cookie ?? {};
      const ms = expires ? new Date(expires) - Date.now() : maxAge ?? originalMaxAge;
      return typeof ms === 'number' && !Number.isNaN(ms) ? lifetimeOfMs(Math.max(0, ms)) : undefined;
    }

    #find(id) {
      const session = this.cache.get(id);
      return isSession(session) ? session : null;
    }

    get(id, callback) {
      this.#answer(callback, () => this.#find(id));
    }

    set(id, session, callback) {
      this.#answer(callback, () => {
        const ttl = this.#ttl(session);
        if (ttl === 0) this.cache.delete(id);
        else this.cache.set(id, session, { ttl });
      });
    }

    /** Where the pool has no room for the new cookie, the session lives on with the old one. */
    #keep(id, cookie, ttl) {
      try {
        this.cache._change(id, (saved) => (isSession(saved) ? { ...saved, cookie } : saved), { ttl });
      } catch (error) {
        if (!(error instanceof TslabError)) throw error;
        warn('session', `a session keeps its old cookie: ${error.message}`);
        this.cache.touch(id, ttl);
      }
    }

    /** Keeps a session that this request did not change, with its new cookie; others may change the session meanwhile. */
    touch(id, session, callback) {
      this.#answer(callback, () => {
        const ttl = this.#ttl(session);
        if (ttl === 0) this.cache.delete(id);
        else if (session?.cookie === undefined) this.cache.touch(id, ttl);
        else this.#keep(id, session.cookie, ttl);
      });
    }

    destroy(id, callback) {
      this.#answer(callback, () => void this.cache.delete(id));
    }

    all(callback) {
      this.#answer(callback, () =>
        [...this.cache.map.keys()].flatMap((id) => {
          const session = this.#find(id);
          return session === null ? [] : [{ ...session, id: String(id) }];
        }));
    }

    length(callback) {
      this.#answer(callback, () => this.cache.map.count());
    }

    clear(callback) {
      this.#answer(callback, () => this.cache.clear());
    }
  };

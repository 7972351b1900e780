import type { Cache, CacheOptions, Pool } from '../lib/index';

interface Session {
  Store: abstract new (...args: any[]) => any;
}

/** A class of stores for express-session, and for packages that take its stores. */
declare function makeStore<S extends Session>(
  session: S,
): new (pool: Pool, options?: CacheOptions) => InstanceType<S['Store']> & { readonly cache: Cache };
export = makeStore;

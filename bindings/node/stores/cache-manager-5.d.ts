import type { Cache, CacheOptions, Pool } from '../lib/index';

/** A store for cache-manager 5, of which later versions take that for keyv: `caching(new CacheManagerTslab(tslab.open()))`. */
export class CacheManagerTslab {
  constructor(pool: Pool, options?: CacheOptions);
  readonly cache: Cache;
  get<Value>(key: string): Promise<Value | undefined>;
  mget(...keys: string[]): Promise<unknown[]>;
  /** `ttl` is milliseconds. */
  set<Value>(key: string, value: Value, ttl?: number): Promise<void>;
  mset(entries: Array<[string, unknown]>, ttl?: number): Promise<void>;
  del(key: string): Promise<void>;
  mdel(...keys: string[]): Promise<void>;
  reset(): Promise<void>;
  keys(pattern?: string): Promise<string[]>;
  /** Milliseconds; -1: it has no end; -2: it is absent. */
  ttl(key: string): Promise<number>;
}

import type { Cache, CacheOptions, Pool } from '../lib/index';

/** A store for keyv, and so for cache-manager 6 and later: `new Keyv({ store: new KeyvTslab(tslab.open()) })`. */
export class KeyvTslab {
  constructor(pool: Pool, options?: CacheOptions);
  readonly cache: Cache;
  opts: any;
  namespace?: string;
  get<Value>(key: string): Promise<Value | undefined>;
  getMany<Value>(keys: string[]): Promise<Array<Value | undefined>>;
  has(key: string): Promise<boolean>;
  hasMany(keys: string[]): Promise<boolean[]>;
  /** `ttl` is milliseconds. */
  set(key: string, value: any, ttl?: number): Promise<boolean>;
  setMany(entries: Array<{ key: string; value: any; ttl?: number }>): Promise<any>;
  delete(key: string): Promise<boolean>;
  deleteMany(keys: string[]): Promise<any>;
  clear(): Promise<void>;
  iterator<Value>(): AsyncGenerator<any, void>;
  disconnect(): Promise<void>;
  on(event: string, listener: (...args: any[]) => void): this;
}
export default KeyvTslab;

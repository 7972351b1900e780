/** Times are seconds; `Infinity` means without end. Keys are text, which is UTF-8, or bytes. */
export type Key = string | Uint8Array;
export type Bytes = string | Uint8Array;
export interface Lifetime { ttl?: number }

export const version: string;

export interface PoolOptions { reader?: boolean; timeout?: number; start?: boolean | StartOptions }

/** Settings of a daemon that is started where nobody runs one; all but the first two are options of tslabd(8). */
export interface StartOptions {
  /** The daemon; `tslabd` of the PATH where none is named. */
  program?: string;
  /** It ends when no process was connected for so many seconds: 60. */
  idle?: number;
  size?: string | number;
  threads?: number;
  retain?: string | number;
  keep?: string;
  mode?: string;
  group?: string;
}

/**
 * Opens the pool of that name or socket; without one $TSLAB_POOL, or "default". With `start` its daemon is started where
 * there is none.
 */
export function open(name?: string, options?: PoolOptions): Pool;
/** Creates a private pool, for the threads and tests of this process. */
export function create(options?: { size?: number }): Pool;

export class Pool {
  private constructor();
  readonly name: string | null;
  readonly isOpen: boolean;
  map(name: string, options?: MapOptions): Map;
  stats(): Record<string, number>;
  stale(): Promise<boolean>;
  close(): void;
}

export interface MapOptions extends Lifetime {
  existing?: boolean;
  exclusive?: boolean;
  limitBytes?: number;
  valueMax?: number;
  /** For how many seconds expired values can still be had as stale ones. */
  stale?: number;
  evict?: 'sieve';
}

export interface PutOptions extends Lifetime {
  /** Up to four, each from Map.tag(). */
  tags?: bigint[];
}

export interface Entry {
  value: Buffer;
  version: bigint;
  ttl: number;
  isStale: boolean;
  isCounter: boolean;
}

export class Map implements Iterable<[Buffer, Buffer]> {
  private constructor();
  readonly pool: Pool;
  readonly name: string;
  readonly sizeMax: number;
  get(key: Key): Buffer | undefined;
  getString(key: Key): string | undefined;
  getInto(key: Key, buffer: Uint8Array): number | undefined;
  getWith(key: Key, options?: { stale?: boolean }): Entry | undefined;
  has(key: Key): boolean;
  ttl(key: Key): number | undefined;
  put(key: Key, value: Bytes, options?: PutOptions): void;
  insert(key: Key, value: Bytes, options?: PutOptions): boolean;
  update(key: Key, value: Bytes, options?: PutOptions): boolean;
  replace(key: Key, version: bigint | number, value: Bytes, options?: PutOptions): boolean;
  delete(key: Key, version?: bigint): boolean;
  pop(key: Key): Buffer | undefined;
  touch(key: Key, ttl?: number): boolean;
  tag(tag: Key): bigint;
  invalidate(tag: Key): boolean;
  add(key: Key, delta?: number | bigint, options?: Lifetime & { initial?: number | bigint }): number | bigint;
  /** 0, or the seconds until there are enough tokens. */
  limit(key: Key, perSecond: number, burst: number, cost?: number): number;
  claim(key: Key, options?: Lifetime): { isMine: boolean; version: bigint } | undefined;
  extend(key: Key, version: bigint, options?: Lifetime): bigint | undefined;
  isClaimed(key: Key, version?: bigint): boolean;
  wait(key: Key, version?: bigint, options?: { timeout?: number }): Promise<boolean>;
  lock(key: Key, options?: Lifetime): Lock;
  entries(): IterableIterator<[Buffer, Buffer]>;
  keys(): IterableIterator<Buffer>;
  [Symbol.iterator](): IterableIterator<[Buffer, Buffer]>;
  count(): number;
  clear(): number;
  stats(): Record<string, number>;
}

export interface CacheOptions extends MapOptions {
  name?: string;
  serializer?: 'json' | 'v8';
}

export interface CachePutOptions extends Lifetime {
  /** Up to four, or what Map.tag() told: the value is absent once invalidate() was called for one of them. */
  tags?: (Key | bigint)[];
}

export class Cache {
  constructor(pool: Pool, options?: CacheOptions);
  readonly map: Map;
  get<T = unknown>(key: Key): T | undefined;
  getMulti<T = unknown, K extends Key = Key>(keys: Iterable<K>): globalThis.Map<K, T>;
  has(key: Key): boolean;
  ttl(key: Key): number | undefined;
  set(key: Key, value: unknown, options?: CachePutOptions): void;
  trySet(key: Key, value: unknown, options?: CachePutOptions): boolean;
  setMany(entries: Iterable<[Key, unknown]>, options?: CachePutOptions): void;
  /** Makes all values that have this tag absent at once, in all processes: whether there was such a tag. */
  invalidate(tag: Key): boolean;
  add(key: Key, value: unknown, options?: CachePutOptions): boolean;
  replace(key: Key, value: unknown, options?: CachePutOptions): boolean;
  touch(key: Key, ttl?: number): boolean;
  incr(key: Key, delta?: number | bigint, options?: Lifetime & { initial?: number | bigint }): number | bigint;
  decr(key: Key, delta?: number | bigint, options?: Lifetime & { initial?: number | bigint }): number | bigint;
  pop<T = unknown>(key: Key): T | undefined;
  delete(key: Key): boolean;
  deleteMany(keys: Iterable<Key>): number;
  clear(): void;
  stats(): Record<string, number>;
  lock(key: Key, options?: Lifetime): Lock;
  getOrCompute<T>(key: Key, make: (key: Key) => T | Promise<T>, options?: CachePutOptions & { timeout?: number }): Promise<T>;
}

export class Lock {
  private constructor();
  readonly key: Key;
  ttl: number;
  tryAcquire(): boolean;
  acquire(options?: { timeout?: number }): Promise<boolean>;
  extend(ttl?: number): void;
  release(): boolean;
  isLocked(): boolean;
  use<T>(work: (lock: Lock) => T | Promise<T>, options?: { timeout?: number }): Promise<T | undefined>;
}

export class Limiter {
  constructor(pool: Pool, name: string, perSecond: number, burst: number);
  take(key: Key, cost?: number): number;
  allow(key: Key, cost?: number): boolean;
}

export class Counter {
  constructor(map: Map, key: Key);
  readonly value: number | bigint;
  add(delta?: number | bigint): number | bigint;
  reset(): number | bigint;
}

export class TslabError extends Error {
  readonly code: string;
  readonly errno: number;
  readonly syscall: string;
}
export class LockLostError extends TslabError {}
export class ValueError extends Error {}

/** The bytes of a value in the format that all languages share, or text of which they are the UTF-8. */
export function encode(value: unknown, serializer?: 'json' | 'v8'): Bytes;
export function decode(data: Buffer): unknown;

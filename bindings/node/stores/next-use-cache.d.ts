/** As Next.js has it in `next/cache`. */
interface CacheEntry {
  value: ReadableStream<Uint8Array>;
  tags: string[];
  stale: number;
  timestamp: number;
  expire: number;
  revalidate: number;
}

/** A cache handler for 'use cache' of Next.js: `cacheHandlers: { default: require.resolve('tslab/next-use-cache') }`. */
declare const handler: {
  get(key: string, softTags?: string[]): Promise<CacheEntry | undefined>;
  set(key: string, pending: Promise<CacheEntry>): Promise<void>;
  refreshTags(): Promise<void>;
  getExpiration(tags?: string[]): Promise<number>;
  updateTags(tags: string[], durations?: { expire?: number }): Promise<void>;
};
export = handler;

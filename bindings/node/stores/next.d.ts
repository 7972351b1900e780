/** A cache handler for Next.js, which makes it by itself: `cacheHandler: require.resolve('tslab/next')`. */
declare class TslabCacheHandler {
  constructor(context?: { revalidatedTags?: string[] });
  get(key: string, context?: any): Promise<any>;
  set(key: string, value: any, context?: any): Promise<void>;
  revalidateTag(tags: string | string[], durations?: { expire?: number }): Promise<void>;
  resetRequestCache(): void;
}
export = TslabCacheHandler;

import type { Map, Pool } from '../lib/index';

interface Flexible {
  RateLimiterRedis: abstract new (...args: any[]) => any;
  RateLimiterRes: new (...args: any[]) => any;
}

/** Those of the package, and a pool, which its other stores call `storeClient`. */
interface Options {
  pool?: Pool;
  storeClient?: Pool;
  map?: string;
  points?: number;
  duration?: number;
  [option: string]: unknown;
}

/** A class of limiters, whose limits hold over all processes. */
declare function makeLimiter<F extends Flexible>(
  flexible: F,
): new (options: Options) => InstanceType<F['RateLimiterRedis']> & { readonly map: Map };
export = makeLimiter;

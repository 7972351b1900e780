import tslab from './index.js';

export default tslab;
export const {
  version, open, create, Pool, Map, Cache, Counter, Limiter, Lock, TslabError, LockLostError, ValueError, encode, decode,
} = tslab;

'use strict';
// Lifetimes: seconds for programs, milliseconds for the library.

const NONE_MS = 2 ** 53; // what the addon takes for no end
const MAX_SECONDS = 315576000; // ten years
const WAIT_MAX_MS = 0xffffffff; // 49 days

/** A lifetime for the library: undefined is that of the map, Infinity has no end. */
function ttlMs(ttl) {
  if (ttl === undefined || ttl === null) return 0;
  if (ttl === Infinity) return NONE_MS;
  if (typeof ttl !== 'number' || !(ttl > 0 && ttl <= MAX_SECONDS))
    throw new RangeError(`a lifetime is Infinity, or above 0 and up to ${MAX_SECONDS} seconds, not ${ttl}`);
  // Rounded first: 4.035 * 1000 is a little more than 4035.
  return Math.max(1, Math.ceil(Math.round(ttl * 1e6) / 1000));
}

/** A lifetime for programs, of another package's milliseconds: beyond ten years it is none. */
function lifetimeOfMs(ms) {
  return ms > MAX_SECONDS * 1000 ? Infinity : ms / 1000;
}

/** A time limit for a wait. */
function waitMs(seconds) {
  if (typeof seconds !== 'number' || !(seconds >= 0)) throw new RangeError(`a time limit is 0 seconds or more, not ${seconds}`);
  return Math.min(Math.ceil(seconds * 1000), WAIT_MAX_MS);
}

/** How long a claim stands, or a stale value can be had: as a lifetime, and 49 days at most. */
function limitMs(seconds) {
  return Math.min(ttlMs(seconds), WAIT_MAX_MS);
}

module.exports = { lifetimeOfMs, limitMs, ttlMs, waitMs, WAIT_MAX_MS };

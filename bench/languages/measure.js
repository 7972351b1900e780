'use strict';

const KEYS = Array.from({ length: 1000 }, (_, i) => Buffer.from(`session:${100000 + i}`).toString());

/** Nanoseconds a call: the median of rounds over all keys, after a warm-up that compiles the call. */
function measure(call, seconds) {
  const rounds = [];
  const end = performance.now() + seconds * 1000;
  for (let warm = 0; warm < 20; warm++) for (let i = 0; i < KEYS.length; i++) call(i);
  do {
    const begin = process.hrtime.bigint();
    for (let i = 0; i < KEYS.length; i++) call(i);
    rounds.push(Number(process.hrtime.bigint() - begin) / KEYS.length);
  } while (performance.now() < end);
  rounds.sort((a, b) => a - b);
  return rounds[rounds.length >> 1];
}

function tell(name, seconds, calls) {
  const nanoseconds = Object.fromEntries(Object.entries(calls).map(([call, f]) => [call, measure(f, Number(seconds))]));
  console.log(JSON.stringify({ name, version: process.version, ns: nanoseconds }));
}

module.exports = { KEYS, tell };

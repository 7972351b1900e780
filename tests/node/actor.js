'use strict';
// The actor of the conformance suite: tests/conformance/README.md. Usage: node actor.js PACKAGE SOCKET

const readline = require('node:readline');
const tslab = require(process.argv[2]);
const socket = process.argv[3];

const maps = new Map();
let pool;

class Refusal extends Error {
  constructor(code, more = {}) {
    super(code);
    this.code = code;
    this.more = more;
  }
}

const bytes = (hex) => Buffer.from(hex, 'hex');
const hex = (data) => Buffer.from(data).toString('hex');
const ttl = (ms) => (ms === undefined ? undefined : ms / 1000);
const must = (condition, code) => {
  if (!condition) throw new Refusal(code);
  return null;
};
const found = (value) => {
  must(value !== undefined, 'ENOENT');
  return value;
};

const CALLS = {
  map({ map, name, ttl_ms, limit_bytes, value_max, stale_ms, evict }) {
    pool ??= tslab.open(socket);
    const options = { ttl: ttl(ttl_ms), limitBytes: limit_bytes, valueMax: value_max, stale: ttl(stale_ms), evict };
    maps.set(map, pool.map(name, options));
    return null;
  },
  close_map({ map }) {
    maps.delete(map);
    return null;
  },
  close() {
    pool?.close();
    pool = undefined;
    return null;
  },
  get: ({ map, key }) => hex(found(map.get(key))),
  take: ({ map, key }) => hex(found(map.pop(key))),
  info({ map, key, stale }) {
    const entry = found(map.getWith(key, { stale }));
    return {
      value: hex(entry.value),
      version: String(entry.version),
      stale: entry.isStale,
      counter: entry.isCounter,
      ttl_left_ms: entry.ttl === Infinity ? null : Math.round(entry.ttl * 1000),
    };
  },
  put: ({ map, key, value, ttl_ms }) => map.put(key, value, { ttl: ttl(ttl_ms) }) ?? null,
  insert: ({ map, key, value, ttl_ms }) => must(map.insert(key, value, { ttl: ttl(ttl_ms) }), 'EEXIST'),
  update: ({ map, key, value, ttl_ms }) => must(map.update(key, value, { ttl: ttl(ttl_ms) }), 'ENOENT'),
  replace: ({ map, key, value, version, ttl_ms }) => must(map.replace(key, version, value, { ttl: ttl(ttl_ms) }), 'EAGAIN'),
  touch: ({ map, key, ttl_ms }) => must(map.touch(key, ttl(ttl_ms)), 'ENOENT'),
  delete: ({ map, key, version }) => must(map.delete(key, version), version && map.has(key) ? 'EAGAIN' : 'ENOENT'),
  add({ map, key, delta, initial = '0', ttl_ms }) {
    try {
      return String(map.add(key, BigInt(delta), { initial: BigInt(initial), ttl: ttl(ttl_ms) }));
    } catch (error) {
      throw error instanceof TypeError ? new Refusal('EINVAL') : error;
    }
  },
  set_counter({ map, key, number, ttl_ms }) {
    try {
      return map.setCounter(key, BigInt(number), { ttl: ttl(ttl_ms) }) ?? null;
    } catch (error) {
      throw error instanceof TypeError ? new Refusal('EINVAL') : error;
    }
  },
  limit: ({ map, key, per_second, burst, cost }) => map.limit(key, per_second, burst, cost) * 1000,
  claim({ map, key, limit_ms }) {
    const claim = map.claim(key, { ttl: ttl(limit_ms) });
    must(claim, 'EEXIST');
    if (!claim.isMine) throw new Refusal('EBUSY', { version: String(claim.version) });
    return { version: String(claim.version) };
  },
  extend({ map, key, version, limit_ms }) {
    const extended = map.extend(key, version, { ttl: ttl(limit_ms) });
    must(extended !== undefined, 'EAGAIN');
    return { version: String(extended) };
  },
  wait: async ({ map, key, version, timeout_ms }) =>
    must(await map.wait(key, version, { timeout: ttl(timeout_ms) }), 'ETIMEDOUT'),
  get_many: ({ map, keys }) => keys.map((key) => map.get(bytes(key))).map((value) => value && hex(value)).map((v) => v ?? null),
  put_many: ({ map, keys, values, ttl_ms }) =>
    keys.forEach((key, i) => map.put(bytes(key), bytes(values[i]), { ttl: ttl(ttl_ms) })) ?? null,
  walk: ({ map }) => [...map].map(([key, value]) => [hex(key), hex(value)]),
  count: ({ map }) => map.count(),
};

async function reply(request) {
  const call = CALLS[request.call];
  if (!call) return { error: 'ENOSYS' };
  const prepared = { ...request };
  if (!['map', 'close_map', 'close'].includes(request.call)) prepared.map = maps.get(request.map);
  for (const name of ['key', 'value']) if (name in request) prepared[name] = bytes(request[name]);
  if ('version' in request) prepared.version = BigInt(request.version);
  try {
    return { ok: await call(prepared) };
  } catch (error) {
    if (error instanceof RangeError) return { error: 'EINVAL' };
    if (!error.code) throw error;
    return { error: error.code, ...error.more };
  }
}

async function main() {
  pool = tslab.open(socket);
  console.log(JSON.stringify({ binding: 'node', lacks: [] }));
  for await (const line of readline.createInterface({ input: process.stdin })) console.log(JSON.stringify(await reply(JSON.parse(line))));
  pool?.close();
}

main();

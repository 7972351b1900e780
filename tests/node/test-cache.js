'use strict';
// Caches: values of all kinds, computations that are made once, and a pool that fails.

const assert = require('node:assert');
const { test } = require('node:test');
const { Daemon, IS_FULL, child, ended, sleep, tslab, waitFor } = require('./util.js');

const withCache = (options, work) => async () => {
  const pool = tslab.create(options.pool);
  try {
    await work(new tslab.Cache(pool, options.cache), pool);
  } finally {
    pool.close();
  }
};

const VALUES = [
  '', 'text', 'grüße', '😀', 'x'.repeat(70000), 'ü'.repeat(70000), 0, 1, -1, 23, 24, 255, 256, 65535, 65536, 2 ** 32, 2 ** 53 - 1,
  -(2 ** 53) + 1, 2n ** 63n, -(2n ** 63n), 1.5, -0.1, 1e300, Infinity, -Infinity, NaN, -0, true, false, null, [], {}, [1, [2, ['ü']]],
  { a: { b: [null, true, 'ü'] } }, Buffer.alloc(0), Buffer.from([0xd9, 0xd9, 0xf7]), Buffer.alloc(100000, 9),
  Array.from({ length: 20000 }, (_, i) => ({ i })),
];

test('values of all kinds come back as they were', withCache({ cache: { valueMax: 1 << 22 } }, (cache) => {
  for (const value of VALUES) {
    cache.set('k', value);
    assert.deepStrictEqual(cache.get('k'), value);
    const data = tslab.encode(value);
    assert.deepStrictEqual(tslab.decode(Buffer.from(data)), value);
    assert.deepStrictEqual(cache.pop('k'), value);
    assert.strictEqual(cache.get('k'), undefined);
  }
  for (const wrong of [undefined, () => {}, Symbol('s'), 2n ** 64n]) assert.throws(() => cache.set('k', wrong));
  assert.strictEqual(cache.has('k'), false);
}));

test('structured clone keeps more', withCache({ cache: { serializer: 'v8' } }, (cache) => {
  const value = { date: new Date(5), map: new Map([[1, new Set('a')]]), big: 2n ** 100n, bytes: Buffer.from('ü'), u: undefined };
  value.self = value;
  cache.set('k', value);
  assert.deepStrictEqual(cache.get('k').map, value.map);
  assert.deepStrictEqual(cache.get('k').date, value.date);
  assert.strictEqual(cache.get('k').big, value.big);
  const again = cache.get('k');
  assert.strictEqual(again.self, again);
}));

test('a tag makes its values absent at once', withCache({ cache: { limitBytes: 1 << 20 } }, async (cache, pool) => {
  cache.set('page', { n: 1 }, { tags: ['shoes', Buffer.from('hats')] });
  cache.set('other', 1, { tags: [] });
  assert.ok(cache.add('hats', 2, { tags: ['hats'] }) && cache.replace('hats', 3, { tags: ['hats'], ttl: 50 }));
  assert.deepStrictEqual(cache.get('page'), { n: 1 });
  assert.deepStrictEqual([cache.invalidate('shoes'), cache.invalidate('nobody')], [true, false]);
  assert.deepStrictEqual([cache.get('page'), cache.get('hats'), cache.get('other')], [undefined, 3, 1]);

  // A value that is computed from what was there before the invalidation is never found after it.
  const make = async () => cache.invalidate('shoes') && 'old';
  assert.strictEqual(await cache.getOrCompute('page', make, { tags: ['shoes'] }), 'old');
  assert.strictEqual(cache.get('page'), undefined);
  assert.strictEqual(await cache.getOrCompute('page', () => 'new', { tags: ['shoes'] }), 'new');
  assert.strictEqual(cache.get('page'), 'new');
  assert.throws(() => cache.incr('page'), TypeError);

  for (const tags of ['shoes', [1], Array(5).fill('t'), null, '', 0, false]) {
    const refused = { name: 'TypeError', message: /^tags are an array of up to 4 strings or Buffers; leave them out/ };
    assert.throws(() => cache.set('k', 1, { tags }), refused);
    await assert.rejects(cache.getOrCompute('k', () => 1, { tags }), refused);
    assert.throws(() => cache.map.put('k', '1', { tags }), { name: 'TypeError', message: /^tags are .*leave them out/ });
  }
  assert.strictEqual(cache.map.isClaimed('k'), false);

  // A pool that takes no tag takes no value, and the caller gets it all the same.
  const full = new tslab.Cache(pool, { name: 'full', limitBytes: 700 });
  while (full.trySet(`k${full.map.count()}`, 'x'));
  assert.strictEqual(await full.getOrCompute('k', () => 1, { tags: ['t'] }), 1);
  assert.strictEqual(await cache.getOrCompute('k', () => 1, { tags: ['t'.repeat(5000)] }), 1);
  assert.deepStrictEqual([full.map.isClaimed('k'), cache.map.isClaimed('k'), cache.has('k')], [false, false, false]);
}));

test('CBOR of other languages is read', () => {
  const read = (hex) => tslab.decode(Buffer.from(`d9d9f7${hex}`, 'hex'));
  // Examples of RFC 8949, appendix A.
  for (const [hex, value] of Object.entries({
    '00': 0, '17': 23, '1818': 24, '1b000000e8d4a51000': 1000000000000, '1bffffffffffffffff': 2n ** 64n - 1n, '20': -1,
    '3bffffffffffffffff': -(2n ** 64n), 'f90000': 0, 'f98000': -0, 'f93c00': 1, 'f97bff': 65504, 'f90001': 5.960464477539063e-8,
    'fa47c35000': 100000, 'fb3ff199999999999a': 1.1, 'f97c00': Infinity, 'f97e00': NaN, 'f4': false, 'f5': true, 'f6': null,
    'f7': undefined, 'c11a514b67b0': 1363896240, '6161': 'a', '62c3bc': 'ü', '80': [], '83010203': [1, 2, 3],
    '8301820203820405': [1, [2, 3], [4, 5]], 'a26161016162820203': { a: 1, b: [2, 3] }, '9f018202039f0405ffff': [1, [2, 3], [4, 5]],
    'bf61610161629f0203ffff': { a: 1, b: [2, 3] }, '7f657374726561646d696e67ff': 'streaming',
  }))
    assert.deepStrictEqual(read(hex), value, hex);
  assert.deepStrictEqual(read('a201020304'), new Map([[1, 2], [3, 4]]));
  assert.deepStrictEqual(read('4401020304'), Buffer.from([1, 2, 3, 4]));
  assert.deepStrictEqual(read(`d90106677b2261223a317d`), { a: 1 });
  for (const hex of ['', '18', '1c', '62c3', '8301', 'a1', 'a161', '0000', '5f01ff', 'f8ff', 'd901064161', 'da54534c0161', '9f', '81'.repeat(200)])
    assert.throws(() => read(hex), undefined, hex);
  assert.deepStrictEqual(tslab.decode(Buffer.from([0xff, 0xfe])), Buffer.from([0xff, 0xfe]));
});

test('bytes that are no value are no number', withCache({}, async (cache) => {
  cache.map.put('bad', Buffer.from([0xd9, 0xd9, 0xf7, 0xff]));
  assert.throws(() => cache.incr('bad'), { name: 'TypeError', message: 'the value is no number' });
}));

test('bytes that are no value count as absent, and are computed anew', withCache({}, async (cache) => {
  cache.map.put('k', Buffer.from('d9d9f7ff', 'hex'));
  assert.strictEqual(cache.get('k'), undefined);
  assert.strictEqual(await cache.getOrCompute('k', () => 'new'), 'new');
  assert.strictEqual(cache.get('k'), 'new');
}));

test('calls of a cache', withCache({ cache: { ttl: 100 } }, (cache) => {
  assert.ok(cache.add('k', 1));
  assert.ok(!cache.add('k', 2));
  assert.ok(cache.ttl('k') > 99 && cache.ttl('k') <= 100);
  assert.ok(cache.replace('k', 3));
  assert.ok(!cache.replace('none', 3));
  assert.strictEqual(cache.incr('k', 4), 7);
  assert.strictEqual(cache.get('k'), 7);
  assert.strictEqual(cache.incr('n'), 1);
  assert.strictEqual(cache.decr('n', 3), -2);
  assert.strictEqual(cache.get('n'), -2);
  assert.strictEqual(cache.pop('n'), -2);
  cache.set('text', 'text');
  assert.throws(() => cache.incr('text'), TypeError);

  // A number with tags keeps them.
  cache.set('tagged', 5);
  cache.map.put('tagged', cache.map.get('tagged'), { tags: [cache.map.tag('tag')] });
  assert.throws(() => cache.incr('tagged'), TypeError);
  assert.ok(cache.map.invalidate('tag'));
  assert.strictEqual(cache.get('tagged'), undefined);
  cache.setMany(new Map([['a', 1], ['b', null]]), { ttl: Infinity });
  assert.strictEqual(cache.ttl('a'), Infinity);
  assert.deepStrictEqual(cache.getMulti(['a', 'b', 'c']), new Map([['a', 1], ['b', null]]));
  assert.ok(cache.touch('a', 5) && cache.ttl('a') <= 5);
  assert.strictEqual(cache.deleteMany(['a', 'b', 'c']), 2);
  cache.clear();
  assert.strictEqual(cache.map.count(), 0);
  const counter = new tslab.Counter(cache.map, 'c');
  counter.add(5);
  assert.deepStrictEqual([counter.value, counter.reset(), counter.value], [5, 5, 0]);
  const limiter = new tslab.Limiter(cache.map.pool, 'limits', 0.01, 2);
  assert.deepStrictEqual([limiter.allow('a'), limiter.allow('a'), limiter.allow('a'), limiter.allow('b')], [true, true, false, true]);
  assert.ok(limiter.take('a') > 10);
  assert.throws(() => new tslab.Limiter(cache.map.pool, 'limits', -1, 2), { code: 'EINVAL' });
}));

test('a value is computed once, by whoever comes first', withCache({ cache: { stale: 60 } }, async (cache) => {
  let n = 0;
  const make = async () => {
    await sleep(30);
    return ++n;
  };
  const values = await Promise.all(Array.from({ length: 1000 }, () => cache.getOrCompute('k', make)));
  assert.deepStrictEqual([n, new Set(values)], [1, new Set([1])]);
  await assert.rejects(cache.getOrCompute('bad', () => { throw new RangeError('mine'); }), RangeError);
  assert.strictEqual(await cache.getOrCompute('bad', () => 'good'), 'good');
  await assert.rejects(cache.getOrCompute('self', () => cache.getOrCompute('self', make)), /within its own computation/);
  assert.strictEqual(await cache.getOrCompute('outer', () => cache.getOrCompute('inner', () => 5)), 5);
  await assert.rejects(cache.getOrCompute('nothing', () => undefined), TypeError);
  // One that waits too long computes for itself.
  let release;
  const slow = cache.getOrCompute('slow', () => new Promise((resolve) => { release = resolve; }));
  assert.strictEqual(await cache.getOrCompute('slow', () => 'mine', { timeout: 0.02 }), 'mine');
  release('slow');
  assert.strictEqual(await slow, 'slow');
  // A value that was deleted meanwhile is not kept.
  const late = cache.getOrCompute('late', () => sleep(20).then(() => 'old'));
  cache.set('late', 'newer');
  assert.strictEqual(await late, 'old');
  assert.strictEqual(cache.get('late'), 'newer');
  // Others have the stale value while one computes.
  cache.set('stale', 'old', { ttl: 0.02 });
  await sleep(60);
  const fresh = cache.getOrCompute('stale', () => sleep(50).then(() => 'fresh'));
  assert.strictEqual(await cache.getOrCompute('stale', make), 'old');
  assert.strictEqual(await fresh, 'fresh');
}));

test('a full pool keeps no value, and hands it out all the same', withCache({ pool: { size: 1 << 20 }, cache: { valueMax: 1 << 24 } }, async (cache) => {
  cache.set('k', 'old');
  const large = 'x'.repeat(2 << 20);
  assert.throws(() => cache.set('k', large), { code: 'ENOMEM' });
  assert.strictEqual(cache.get('k'), 'old');
  assert.strictEqual(await cache.getOrCompute('new', () => large), large);
  assert.strictEqual(cache.get('new'), undefined);
  assert.strictEqual(cache.trySet('k', large), false);
  assert.strictEqual(cache.get('k'), undefined);
}));

test('processes compute once, also where the first is killed', async () => {
  const daemon = await Daemon.start('--size=16M');
  const pool = tslab.open(daemon.socket);
  const cache = new tslab.Cache(pool);
  for (let round = 0; round < (IS_FULL ? 30 : 2); round++) {
    const first = child('computeForever', daemon.socket, 'k');
    await waitFor(() => cache.map.isClaimed('k'));
    const others = Array.from({ length: 3 }, () => child('compute', daemon.socket, 'k'));
    const mine = cache.getOrCompute('k', () => { cache.incr('computed'); return 'value'; });
    first.kill('SIGKILL');
    assert.strictEqual(await mine, 'value');
    assert.deepStrictEqual(await Promise.all(others.map(ended)), [0, 0, 0]);
    assert.strictEqual(cache.incr('computed', 0), 1);
    cache.clear();
  }
  pool.close();
  await daemon.stop();
});

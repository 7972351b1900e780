'use strict';
// Maps: values, versions, lifetimes, counters, limits, claims, and what they refuse.

const assert = require('node:assert');
const fs = require('node:fs');
const { test } = require('node:test');
const { Daemon, child, ended, sleep, tslab } = require('./util.js');

const withMap = (name, options, work) => async () => {
  const pool = tslab.create();
  try {
    await work(pool.map(name, options), pool);
  } finally {
    pool.close();
  }
};

test('values are bytes, of any size that the map takes', withMap('a', {}, (map) => {
  for (const size of [0, 1, 255, 4096, 65535, 65536, 65537, 1 << 20]) {
    const value = Buffer.alloc(size, size % 251);
    map.put(`size ${size}`, value);
    assert.deepStrictEqual(map.get(`size ${size}`), value);
    assert.strictEqual(map.getString(`size ${size}`).length > 0, size > 0);
    const room = Buffer.alloc(size + 1, 255);
    assert.strictEqual(map.getInto(`size ${size}`, room), size);
    assert.deepStrictEqual(room.subarray(0, size), value);
    assert.deepStrictEqual(map.pop(`size ${size}`), value);
    assert.strictEqual(map.get(`size ${size}`), undefined);
  }
  assert.strictEqual(map.sizeMax, 1 << 20);
  assert.throws(() => map.put('large', Buffer.alloc((1 << 20) + 1)), { name: 'TslabError', code: 'E2BIG', errno: -7 });
}));

test('each value is a Buffer of its own, also where values share memory', withMap('a', {}, (map) => {
  const sizes = [0, 1, 7, 8, 9, 255, 256, 1000, 4088, 4095, 4096, 4097, 32768, 65537];
  for (const size of sizes) map.put(`${size}`, Buffer.alloc(size, size % 251));
  let kept = [];
  for (let i = 0; i < 4000; i++) {
    const size = sizes[(i * 7 + (i >> 4)) % sizes.length];
    const value = i % 2 ? map.get(`${size}`) : map.get(Buffer.from(`${size}`));
    assert.ok(Buffer.isBuffer(value) && Object.getPrototypeOf(value) === Buffer.prototype);
    assert.strictEqual(map.get('absent'), undefined);
    kept.push([value, Buffer.alloc(size, size % 251)]);
    if (kept.length < 100) continue;
    for (const [got, expected] of kept) assert.deepStrictEqual(got, expected);
    for (const [n, [got]] of kept.entries()) got.fill(n);
    for (const [n, [got]] of kept.entries()) assert.ok(got.every((byte) => byte === n), 'a write into one is seen in another');
    kept = [];
  }
  // Nobody takes the memory away in which values are, and later ones will be: it is refused, or makes a copy.
  const value = map.get('256');
  try { structuredClone(value.buffer, { transfer: [value.buffer] }); } catch (error) { assert.strictEqual(error.name, 'DataCloneError'); }
  assert.deepStrictEqual(value, Buffer.alloc(256, 5));
  // By this call of newer versions it goes: later values have other memory.
  try { value.buffer.transfer?.(); } catch (error) { assert.ok(error instanceof TypeError); }
  assert.deepStrictEqual(map.get('256'), Buffer.alloc(256, 5));
}));

test('copies of the package share the addon, as in Jest, and no memory', withMap('a', {}, (map) => {
  const loadAnew = () => {
    const folder = fs.realpathSync(process.env.TSLAB_TEST_PACKAGE);
    const names = Object.keys(require.cache).filter((name) => name.startsWith(folder) && name.endsWith('.js'));
    const old = names.map((name) => [name, require.cache[name]]);
    for (const name of names) delete require.cache[name];
    try {
      return require(process.env.TSLAB_TEST_PACKAGE);
    } finally {
      for (const [name, module] of old) require.cache[name] = module;
    }
  };
  const maps = [map, ...[2, 3].map(() => loadAnew().create().map('a'))];
  for (const [n, one] of maps.entries()) one.put('k', Buffer.alloc(256, n + 1));
  const kept = [];
  for (let i = 0; i < 1000; i++) {
    const n = (i * 5 >> 1) % maps.length;
    kept.push([n, maps[n].get('k')]);
  }
  for (const [n, value] of kept) assert.deepStrictEqual(value, Buffer.alloc(256, n + 1));
}));

test('a key is the same one as text and as bytes, by each way to read it', withMap('a', {}, (map) => {
  const keys = ['', 'a', '\u0001', 'ā', 'é', 'a'.repeat(127), 'a'.repeat(128), 'a'.repeat(129), 'a'.repeat(300), `${'a'.repeat(127)}é`,
    `${'a'.repeat(128)}é`, '\u0000', 'a\u0000b', '😀', '€'.repeat(100)];
  for (const [i, key] of keys.entries()) map.put(key, `${i}`);
  assert.strictEqual(map.count(), keys.length);
  const room = Buffer.alloc(8);
  for (const [i, key] of keys.entries()) {
    for (const name of [key, Buffer.from(key), new Uint8Array(Buffer.from(key))]) {
      assert.strictEqual(map.getString(name), `${i}`);
      assert.strictEqual(map.get(name).toString(), `${i}`);
      assert.strictEqual(room.toString('latin1', 0, map.getInto(name, room)), `${i}`);
    }
    map.put(Buffer.from(key), Buffer.from('new'));
    assert.strictEqual(map.getString(key), 'new');
  }
  map.put('\ud800', 'lone');
  assert.strictEqual(map.getString('\ufffd'), 'lone', 'half of a character is one that stands for it');
  for (const wrong of [new Float64Array(1), new DataView(new ArrayBuffer(1)), Object.create(Uint8Array.prototype), ['a']])
    for (const read of [(key) => map.getString(key), (key) => map.getInto(key, room), (key) => map.put(key, 'v')])
      assert.throws(() => read(wrong), TypeError);
}));

test('keys and values are text as UTF-8, too', withMap('a', {}, (map) => {
  for (const text of ['', 'a', 'ä', '€', '😀', 'a'.repeat(4000), '€'.repeat(1300)]) {
    map.put(`k${text.slice(0, 900)}`, text);
    assert.strictEqual(map.getString(Buffer.from(`k${text.slice(0, 900)}`)), text);
    assert.deepStrictEqual(map.get(`k${text.slice(0, 900)}`), Buffer.from(text));
  }
  map.put('long', '€'.repeat(100000));
  assert.strictEqual(map.getString('long'), '€'.repeat(100000));
  // Not cut to a key that would do.
  for (const size of [4097, 4098, 4103, 4104, 4105, 5000])
    assert.throws(() => map.put('k'.repeat(size), 'v'), { code: 'E2BIG' });
  assert.throws(() => map.put('€'.repeat(1366), 'v'), { code: 'E2BIG' });
}));

test('a buffer for values is looked at anew where its memory is another', withMap('a', {}, (map) => {
  map.put('k', 'x'.repeat(100));
  const room = new Uint8Array(100);
  assert.strictEqual(map.getInto('k', room), 100);
  structuredClone(room.buffer, { transfer: [room.buffer] });
  assert.strictEqual(room.length, 0);
  assert.throws(() => map.getInto('k', room), { code: 'EMSGSIZE' });
  const part = new Uint8Array(200).subarray(50, 150);
  assert.strictEqual(map.getInto('k', part), 100);
  assert.strictEqual(part.buffer.byteLength, 200);
  assert.deepStrictEqual(new Uint8Array(part.buffer).subarray(0, 50), new Uint8Array(50));
  for (const wrong of [undefined, null, 5, 'text', {}, [], new Float64Array(100), new DataView(new ArrayBuffer(100))])
    assert.throws(() => map.getInto('k', wrong), TypeError);
  assert.strictEqual(map.getInto('k', part), 100);
}));

test('wrong arguments are refused, and nothing is changed', withMap('a', {}, async (map, pool) => {
  for (const wrong of [undefined, null, 5, 5n, {}, [], Symbol('s'), () => {}, new Float32Array(8), new ArrayBuffer(8)]) {
    for (const call of ['get', 'getString', 'has', 'ttl', 'pop', 'delete', 'getWith', 'add', 'claim'])
      assert.throws(() => map[call](wrong), TypeError, call);
    assert.throws(() => map.put(wrong, 'v'), TypeError);
    assert.throws(() => map.put('k', wrong), TypeError);
  }
  for (const ttl of [0, -1, NaN, '5', 1e9, {}]) assert.throws(() => map.put('k', 'v', { ttl }), RangeError);
  for (const delta of [0.5, NaN, Infinity, 2 ** 60, '5']) assert.throws(() => map.add('n', delta), RangeError);
  assert.throws(() => map.add('n', 2n ** 64n), { code: 'ERANGE' });
  assert.throws(() => map.limit('l', 0, 1), { code: 'EINVAL' });
  assert.throws(() => map.limit('l', 1, -1), RangeError);
  await assert.rejects(map.wait('k', 0n, { timeout: -1 }), RangeError);
  assert.throws(() => pool.map(''), { code: 'EINVAL' });
  assert.throws(() => pool.map('x'.repeat(44)), { code: 'EINVAL' });
  assert.throws(() => pool.map('other', { evict: 'lru' }), RangeError);
  assert.throws(() => pool.map('other', { limitBytes: -1 }), RangeError);
  assert.throws(() => pool.map('other', { existing: true }), { code: 'ENOENT' });
  assert.throws(() => tslab.open(5), TypeError);
  assert.throws(() => tslab.open('/nowhere/at/all.sock'), { code: 'ENOENT' });
  assert.strictEqual(map.count(), 0);
}));

test('versions, conditions and lifetimes', withMap('a', { stale: 60 }, async (map) => {
  assert.ok(map.insert('k', '1'));
  assert.ok(!map.insert('k', '2'));
  assert.ok(!map.update('none', '2'));
  const { value, version, ttl, isStale, isCounter } = map.getWith('k');
  assert.deepStrictEqual([String(value), ttl, isStale, isCounter], ['1', Infinity, false, false]);
  assert.ok(map.replace('k', version, '3'));
  assert.ok(!map.replace('k', version, '4'));
  assert.ok(!map.delete('k', version));
  assert.ok(map.touch('k', 50));
  assert.ok(map.ttl('k') > 0 && map.ttl('k') <= 50);
  assert.ok(!map.touch('none', 50));
  map.put('k', '5', { ttl: 0.02 });
  await sleep(60);
  assert.strictEqual(map.get('k'), undefined);
  assert.ok(map.getWith('k', { stale: true }).isStale);
  assert.ok(map.replace('none', 0n, 'first'));
  assert.ok(map.delete('none'));
  assert.ok(!map.delete('none'));
}));

test('a tag makes its entries absent at once', withMap('a', {}, (map) => {
  const shoes = map.tag('shoes');
  const hats = map.tag('hats');
  map.put('both', 'v', { tags: [shoes, hats] });
  assert.ok(map.insert('hats', 'v', { tags: [hats] }));
  map.put('none', 'v');
  assert.ok(map.invalidate('shoes'));
  assert.ok(!map.invalidate('absent'));
  assert.deepStrictEqual([map.has('both'), map.has('hats')], [false, true]);
  // A value that was computed before the invalidation does not come in after it.
  map.put('late', 'v', { tags: [shoes] });
  assert.ok(!map.has('late'));
  assert.ok(map.update('hats', 'w', { tags: [hats], ttl: 50 }));
  assert.ok(map.replace('hats', map.getWith('hats').version, 'x', { tags: [hats] }));
  assert.ok(map.invalidate('hats'));
  assert.deepStrictEqual([map.has('hats'), map.has('none')], [false, true]);
  for (const tags of ['shoes', [1], [hats, , hats], Array(5).fill(hats)])
    assert.throws(() => map.put('k', 'v', { tags }), TypeError);

  // An element's getter does not run while the call reads the value.
  const value = new Uint8Array(1 << 20).fill(65);
  let n = 0;
  const tags = Object.defineProperty([], 0, {
    get() {
      if (++n === 2) structuredClone(value.buffer, { transfer: [value.buffer] });
      return hats;
    },
  });
  map.put('getter', value.subarray(0, 100000), { tags });
  assert.deepStrictEqual([n, value.length], [1, 1 << 20]);
}));

test('counters are exact, and limits hold', withMap('a', {}, (map) => {
  assert.strictEqual(map.add('n'), 1);
  assert.strictEqual(map.add('n', -5), -4);
  assert.strictEqual(map.add('n', 2n ** 60n), 2n ** 60n - 4n);
  assert.strictEqual(map.add('m', 1, { initial: 10 }), 11);
  assert.strictEqual(map.getWith('m').isCounter, true);
  map.put('text', 'text');
  assert.throws(() => map.add('text'), TypeError);
  assert.deepStrictEqual([map.limit('l', 0.001, 2), map.limit('l', 0.001, 2)], [0, 0]);
  assert.ok(map.limit('l', 0.001, 2) > 100);
}));

test('entries are met by a walk, large ones too', withMap('a', {}, (map) => {
  const expected = new Map();
  for (let i = 0; i < 500; i++) expected.set(`key ${i}`, 'v'.repeat(i === 7 ? 300000 : i));
  for (const [key, value] of expected) map.put(key, value);
  const met = new Map([...map].map(([key, value]) => [String(key), String(value)]));
  assert.deepStrictEqual(new Map([...met].sort()), new Map([...expected].sort()));
  assert.strictEqual([...map.keys()].length, 500);
  // Calls in the middle of a walk, on this map and others, do not disturb it.
  let n = 0;
  for (const [key] of map) {
    map.getString('key 300');
    map.delete(key);
    n++;
  }
  assert.strictEqual(n, 500);
  assert.strictEqual(map.clear(), 0);
  assert.strictEqual(map.stats().deletes, 500);
}));

test('a wait ends with its claim, and the loop goes on meanwhile', withMap('a', {}, async (map, pool) => {
  const claim = map.claim('k');
  assert.ok(claim.isMine);
  assert.deepStrictEqual(map.claim('k'), { isMine: false, version: claim.version });
  let turns = 0;
  const turning = setInterval(() => turns++, 1);
  assert.strictEqual(await map.wait('k', claim.version, { timeout: 0.2 }), false);
  clearInterval(turning);
  assert.ok(turns > 3, `${turns} turns of the loop while it waited`);
  const many = Array.from({ length: 10000 }, () => map.wait('k'));
  const extended = map.extend('k', claim.version);
  assert.ok(map.replace('k', extended, 'value'));
  assert.deepStrictEqual(new Set(await Promise.all(many)), new Set([true]));
  assert.strictEqual(map.claim('k'), undefined);
  assert.ok(map.claim('other').isMine);
  const pending = map.wait('other');
  pool.close();
  await assert.rejects(pending, { code: 'EIDRM' });
  assert.throws(() => map.get('k'), { code: 'EBADF' });
  await assert.rejects(map.wait('k'), { code: 'EBADF' });
  assert.throws(() => pool.map('b'), { code: 'EBADF' });
  assert.throws(() => pool.stats(), { code: 'EBADF' });
  pool.close();
}));

test('a lock is had by one, and an owner that has lost it is told', withMap('a', {}, async (map) => {
  const one = map.lock('job');
  const two = map.lock('job');
  assert.ok(await one.acquire());
  assert.strictEqual(two.tryAcquire(), false);
  assert.strictEqual(await two.acquire({ timeout: 0.05 }), false);
  const soon = two.acquire();
  one.extend();
  assert.ok(one.isLocked());
  assert.ok(one.release());
  assert.ok(!one.release());
  assert.strictEqual(await soon, true);
  map.clear();
  assert.throws(() => two.extend(), tslab.LockLostError);
  assert.strictEqual(await one.use(() => 'done'), 'done');
  await assert.rejects(one.use(() => map.clear()), tslab.LockLostError);
  await assert.rejects(one.use(() => { throw new RangeError('mine'); }), RangeError);
  assert.ok(!one.isLocked());
  map.put('job', 'a value');
  await assert.rejects(one.acquire(), { code: 'EEXIST' });
  const brief = map.lock('brief', { ttl: 0.05 });
  assert.ok(await brief.acquire());
  await sleep(120);
  assert.ok(await map.lock('brief').acquire());
  assert.throws(() => brief.extend(), tslab.LockLostError);
}));

test('another process reads and writes', async () => {
  const daemon = await Daemon.start('--size=16M');
  const pool = tslab.open(daemon.socket);
  const map = pool.map('shared');
  map.put('from the parent', 'grüße');
  const process = child('other', daemon.socket);
  let output = '';
  process.stdout.on('data', (data) => (output += data));
  assert.strictEqual(await ended(process), 0);
  assert.strictEqual(output, 'grüße');
  assert.deepStrictEqual([...map.get('from the child')], [1, 2, 255]);
  const reader = tslab.open(daemon.socket, { reader: true }).map('shared', { existing: true });
  assert.strictEqual(reader.getString('from the parent'), 'grüße');
  assert.throws(() => reader.put('k', 'v'), { code: 'EROFS' });
  reader.pool.close();
  pool.close();
  await daemon.stop();
});

test('a daemon with new memory is followed, and the maps begin anew', async () => {
  const daemon = await Daemon.start('--size=16M');
  const pool = tslab.open(daemon.socket);
  const map = pool.map('m');
  map.put('k', 'old');
  assert.strictEqual(await pool.stale(), false);
  const claim = map.claim('claimed');
  const waiting = map.wait('claimed', claim.version);
  const lost = assert.rejects(waiting, { code: 'EIDRM' });
  await daemon.end('SIGKILL');
  assert.strictEqual(map.getString('k'), 'old');
  await daemon.begin('--fresh');
  await lost; // the wait in the old memory, when the pool goes over
  assert.strictEqual(map.get('k'), undefined);
  map.put('k', 'new');
  const other = tslab.open(daemon.socket);
  assert.strictEqual(other.map('m').getString('k'), 'new');
  other.close();
  pool.close();
  await daemon.stop();
});

'use strict';
// Stores for packages of npm, with these packages: they are installed into a folder of the test's own. Without a registry
// the test is skipped. Under cluster, workers of express-session are killed, and no session is lost.

const assert = require('node:assert');
const { execFileSync, spawn } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const { createRequire } = require('node:module');
const path = require('node:path');
const { test } = require('node:test');
const { Daemon, IS_FULL, PACKAGE, ended, fillPool, installPackages, tslab, waitFor } = require('./util.js');

const NAMES = ['express', 'express-session', 'keyv', 'cache-manager', 'cache-manager-5@npm:cache-manager@5', 'rate-limiter-flexible', 'typescript', '@types/node', '@types/express-session'];
const folder = installPackages(NAMES);
const require_ = createRequire(path.join(folder, 'index.js'));
const stores = (name) => require(path.join(PACKAGE, 'stores', `${name}.js`));

test('keyv and cache-manager', async () => {
  const { default: Keyv, Keyv: Named = Keyv } = await import(require_.resolve('keyv'));
  const { KeyvTslab } = stores('keyv');
  const pool = tslab.create();
  const store = new KeyvTslab(pool);
  const [a, b] = ['a', 'b'].map((namespace) => new Named({ store: new KeyvTslab(pool), namespace }));
  for (const value of ['text', 5, true, null, { deep: [1, { x: 'ü' }] }]) {
    await a.set('k', value);
    assert.deepStrictEqual(await a.get('k'), value);
  }
  await b.set('k', 'of b');
  await a.set('gone', 1, 20);
  await waitFor(async () => (await a.get('gone')) === undefined);
  assert.strictEqual(await a.has('k'), true);
  assert.deepStrictEqual(await a.get(['k', 'none']), [{ deep: [1, { x: 'ü' }] }, undefined]);
  assert.deepStrictEqual((await Array.fromAsync?.(a.iterator?.() ?? []))?.length ?? 1, 1);
  await a.set('long', 1, 1e15);
  assert.strictEqual(await a.get('long'), 1);
  await a.clear();
  assert.strictEqual(await a.get('k'), undefined);
  assert.strictEqual(await b.get('k'), 'of b');
  assert.strictEqual(await b.delete('k'), true);
  assert.strictEqual(store.cache.map.count(), 0);

  const { createCache } = await import(require_.resolve('cache-manager'));
  const cache = createCache({ stores: [new Named({ store })] });
  let n = 0;
  const values = await Promise.all(Array.from({ length: 20 }, () => cache.wrap('w', async () => ++n, 5000)));
  assert.deepStrictEqual([n, new Set(values)], [1, new Set([1])]);
  assert.strictEqual(await cache.get('w'), 1);
  await cache.del('w');
  assert.ok([undefined, null].includes(await cache.get('w')));
  pool.close();
});

test('cache-manager 5', async () => {
  const { caching, multiCaching } = require_('cache-manager-5');
  const { CacheManagerTslab } = stores('cache-manager-5');
  const pool = tslab.create();
  const [one, two] = [await caching(new CacheManagerTslab(pool)), await caching(new CacheManagerTslab(pool))];
  for (const value of ['text', 5, true, null, { deep: [1, { x: 'ü' }] }]) {
    await one.set('k', value);
    assert.deepStrictEqual(await two.get('k'), value);
  }
  assert.strictEqual(await one.get('none'), undefined);
  let n = 0;
  for (const cache of [one, two]) assert.strictEqual(await cache.wrap('w', async () => ++n, 5000), 1);
  assert.ok((await one.store.ttl('w')) > 4000 && (await one.store.ttl('w')) <= 5000);
  assert.deepStrictEqual([await one.store.ttl('k'), await one.store.ttl('none')], [-1, -2]);
  // One that ends soon is made anew meanwhile.
  assert.strictEqual(await one.wrap('w', async () => ++n, 5000, 6000), 1);
  await waitFor(async () => (await two.get('w')) === 2);
  await one.set('gone', 1, 20);
  await waitFor(async () => (await two.get('gone')) === undefined);
  await one.store.mset([['a.1', 1], ['a.2', 2], ['b', 3]], 5000);
  assert.deepStrictEqual(await two.store.mget('a.1', 'none', 'b'), [1, undefined, 3]);
  assert.deepStrictEqual((await two.store.keys('a.?')).sort(), ['a.1', 'a.2']);
  assert.deepStrictEqual((await two.store.keys('a')), []);
  assert.strictEqual((await two.store.keys()).length, 5);
  await one.store.mdel('a.1', 'a.2');
  await one.del('b');
  assert.deepStrictEqual((await two.store.keys()).sort(), ['k', 'w']);
  const both = multiCaching([await caching('memory'), one]);
  await both.set('k', 'both');
  assert.strictEqual(await two.get('k'), 'both');
  await assert.rejects(one.set('k', undefined), TypeError);
  await one.reset();
  assert.strictEqual(await two.get('k'), undefined);
  pool.close();
});

test('rate-limiter-flexible', async () => {
  const flexible = require_('rate-limiter-flexible');
  const Limiter = stores('rate-limiter-flexible')(flexible);
  const pool = tslab.create();
  const limiter = new Limiter({ pool, points: 2, duration: 50, blockDuration: 0 });
  const other = new Limiter({ pool, points: 2, duration: 50 });
  assert.deepStrictEqual((({ remainingPoints, isFirstInDuration }) => [remainingPoints, isFirstInDuration])(await limiter.consume('k')), [1, true]);
  assert.strictEqual((await other.consume('k')).remainingPoints, 0);
  const refused = await limiter.consume('k').catch((result) => result);
  assert.strictEqual(refused.consumedPoints, 3);
  assert.ok(refused.msBeforeNext > 0 && refused.msBeforeNext <= 50000);
  assert.strictEqual((await limiter.get('k')).consumedPoints, 3);
  assert.strictEqual((await limiter.reward('k', 2)).consumedPoints, 1);
  assert.strictEqual((await limiter.penalty('k', 1)).consumedPoints, 2);
  await limiter.block('k', 30);
  assert.ok((await limiter.get('k')).msBeforeNext <= 30000);
  await limiter.set('k', 1, 10);
  assert.strictEqual((await other.get('k')).consumedPoints, 1);
  assert.strictEqual(await limiter.delete('k'), true);
  assert.strictEqual(await limiter.get('k'), null);
  // Points that are set have the lifetime that is set, also where there were some.
  await limiter.consume('k');
  await limiter.block('k', 500);
  assert.ok((await limiter.get('k')).msBeforeNext > 400000);
  await limiter.block('k', 1e12);
  assert.strictEqual((await limiter.get('k')).msBeforeNext, -1);
  // A look at points that end just then makes none, which would have no end.
  const ending = new Limiter({ pool, points: 1000, duration: 0.005, keyPrefix: 'ending' });
  for (let i = 0; i < 300; i++) {
    await ending.consume('k');
    for (let found = {}; found !== null; ) {
      found = await ending.get('k');
      assert.notStrictEqual(found?.msBeforeNext, -1);
    }
  }
  // A pool that is closed is the store's error, in whose place another limiter limits.
  const closed = tslab.create();
  const insured = new Limiter({ pool: closed, points: 1, duration: 5, insuranceLimiter: new Limiter({ pool, points: 3, duration: 5 }) });
  closed.close();
  assert.strictEqual((await insured.consume('insured')).remainingPoints, 2);
  assert.throws(() => new Limiter({ points: 1, duration: 1 }), /storeClient/);
  const brief = new Limiter({ pool, points: 1, duration: 0.05, keyPrefix: 'brief' });
  await brief.consume('k');
  await waitFor(() => brief.consume('k').then(() => true, () => false));
  pool.close();
});

test('a store for express-session', async () => {
  const pool = tslab.create();
  const session = require_('express-session');
  const store = new (stores('express-session')(session))(pool);
  const call = (name, ...args) => new Promise((resolve, reject) => {
    store[name](...args, (error, result) => (error ? reject(error) : resolve(result)));
  });
  const cookie = (maxAge) => Object.assign(new session.Cookie(), { maxAge });
  const saved = (cookie) => JSON.parse(JSON.stringify(cookie));
  await call('set', 'id', { user: 'alice', cookie: cookie(60000) });
  // A touch keeps the session that is there, and its cookie ends later.
  const later = cookie(120000);
  await call('touch', 'id', { user: 'bob', cookie: later });
  assert.deepStrictEqual(await call('get', 'id'), { user: 'alice', cookie: saved(later) });
  assert.ok(store.cache.ttl('id') > 100);
  await call('touch', 'nobody', { cookie: later });
  assert.strictEqual(await call('length'), 1);
  await call('touch', 'id', { cookie: cookie(-1) });
  assert.strictEqual(await call('get', 'id'), null);
  // What is no session, as another program put it there, is none: a request begins a new one, and a touch makes none of it.
  for (const value of ['text', 5, true, null, [1, 2], Buffer.from([255])]) {
    store.cache.set('id', value);
    await call('touch', 'id', { cookie: later });
    assert.deepStrictEqual(store.cache.get('id'), value);
    assert.strictEqual(await call('get', 'id'), null);
    assert.deepStrictEqual(await call('all'), []);
  }
  // A session that is gone stays so, also if it goes just then.
  await call('destroy', 'id');
  await call('touch', 'id', { user: 'alice', cookie: later });
  assert.strictEqual(await call('get', 'id'), null);
  // Cookies that end in a hundred years, never, or at no date.
  for (const [maxAge, ttl] of [[100 * 365 * 86400000, Infinity], [undefined, 86400], [NaN, 86400]]) {
    await call('set', 'id', { cookie: cookie(maxAge) });
    assert.ok(store.cache.ttl('id') >= ttl - 10 && store.cache.ttl('id') <= ttl);
  }
  pool.close();
});

test('sessions of a full pool are kept for as long as they are used', async () => {
  const pool = tslab.create({ size: 8 << 20 });
  const store = new (stores('express-session')(require_('express-session')))(pool);
  const call = (name, ...args) => new Promise((resolve, reject) => {
    store[name](...args, (error, result) => (error ? reject(error) : resolve(result)));
  });
  const ids = Array.from({ length: 50 }, (_, i) => `id ${i}`);
  for (const [i, id] of ids.entries()) await call('set', id, { text: 'x'.repeat(60 * i), cookie: { originalMaxAge: 60000 } });
  fillPool(pool);
  for (const id of ids) {
    await call('touch', id, { cookie: { originalMaxAge: 120000, path: '/' } });
    assert.ok(store.cache.ttl(id) > 100);
  }
  pool.close();
});

const request = (port, cookie) =>
  new Promise((resolve, reject) => {
    const options = { port, agent: false, headers: cookie ? { cookie } : {} };
    const request = http.get(options, (response) => {
      let text = '';
      response.on('data', (data) => (text += data)).on('end', () => {
        resolve({ text, cookie: response.headers['set-cookie']?.[0].split(';')[0] ?? cookie });
      }).on('error', reject);
    });
    // A connection that was handed to a worker just before its death may stay open without an answer.
    request.setTimeout(2000, () => request.destroy(new Error('no answer'))).on('error', reject);
  });

test('express-session under cluster, with workers that are killed', async () => {
  const daemon = await Daemon.start('--size=64M');
  const kills = IS_FULL ? 1000 : 10;
  const primary = spawn(process.execPath, [path.join(__dirname, 'sessions-app.js'), folder, daemon.socket, String(kills)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let output = '';
  primary.stdout.on('data', (data) => (output += data));
  const port = await waitFor(() => output.match(/port (\d+)/)?.[1]);
  const users = Array.from({ length: 8 }, () => ({ visits: 0, cookie: undefined, failed: 0 }));
  const visit = async (user) => {
    while (!output.includes('killed all') || user.visits < 10) {
      let answer;
      try {
        answer = await request(port, user.cookie);
      } catch {
        // Its worker was killed: the visit is counted or not, and nothing else is lost.
        user.failed++;
        continue;
      }
      const visits = Number(answer.text);
      user.cookie = answer.cookie;
      assert.ok(visits > user.visits && visits <= user.visits + 1 + user.failed, `${visits} after ${user.visits}, ${user.failed} failed`);
      user.visits = visits;
      user.failed = 0;
    }
  };
  await Promise.all(users.map(visit));
  primary.stdin.end();
  assert.strictEqual(await ended(primary), 0);
  await daemon.stop();
});

test('the types', () => {
  fs.writeFileSync(path.join(folder, 'use.ts'), `
    import * as tslab from '${PACKAGE}/lib/index';
    const cache = new tslab.Cache(tslab.open('web'), { ttl: 5, evict: 'sieve' });
    const page: string | undefined = cache.get<string>('page');
    cache.set('list', [1], { tags: ['shoes'] });
    const was: boolean = cache.invalidate('shoes');
    const made: Promise<number> = cache.getOrCompute('n', async () => 5, { tags: ['numbers', cache.map.tag('fives')] });
    const size: number | undefined = cache.map.getInto('k', Buffer.alloc(5));
    const lock: Promise<string | undefined> = cache.lock('l').use(() => 'done');
    // @ts-expect-error: no number is a value of a map
    cache.map.put('k', 5);
    export { page, made, size, lock, was };
  `);
  fs.cpSync(PACKAGE, path.join(folder, 'node_modules/tslab'), { recursive: true, dereference: true });
  fs.writeFileSync(path.join(folder, 'use-stores.ts'), `
    import * as flexible from 'rate-limiter-flexible';
    import session = require('express-session');
    import { caching, type Cache } from 'cache-manager-5';
    import { Keyv } from 'keyv';
    import * as tslab from 'tslab';
    import { CacheManagerTslab } from 'tslab/cache-manager-5';
    import makeStore = require('tslab/express-session');
    import { KeyvTslab } from 'tslab/keyv';
    import Handler = require('tslab/next');
    import useCache = require('tslab/next-use-cache');
    import makeLimiter = require('tslab/rate-limiter-flexible');
    const pool: tslab.Pool = tslab.open('web', { start: true });
    const keyv = new Keyv({ store: new KeyvTslab(pool, { ttl: 60 }) });
    const managed: Promise<Cache> = caching(new CacheManagerTslab(pool));
    const store = new (makeStore(session))(pool, { name: 'sessions' });
    const handler = session({ store, secret: 's' });
    const limiter = new (makeLimiter(flexible))({ pool, points: 5, duration: 1 });
    const left: Promise<flexible.RateLimiterRes> = limiter.consume('k');
    const done: Promise<void> = new Handler().revalidateTag('t', { expire: 0 });
    const made: Promise<number | undefined> = useCache.get('key', ['tag']).then((entry) => entry?.expire);
    // @ts-expect-error: a pool is needed
    new KeyvTslab();
    export { keyv, handler, left, done, made, managed };
  `);
  const options = ['--noEmit', '--strict', '--skipLibCheck', '--target', 'es2022', '--module', 'node16', '--moduleResolution', 'node16',
    '--types', 'node', 'use.ts', 'use-stores.ts'];
  execFileSync(path.join(folder, 'node_modules/.bin/tsc'), options, { cwd: folder, stdio: 'inherit', timeout: 120000 });
});

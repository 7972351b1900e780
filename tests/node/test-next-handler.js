'use strict';
// The cache handler for Next.js, called as Next.js calls it: a handler is made for each request.

const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const { mkdirSync, mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const { tmpdir } = require('node:os');
const path = require('node:path');
const { after, test } = require('node:test');
const { Daemon, IS_FULL, PACKAGE, child, ended, fillPool, sleep, tslab, waitFor } = require('./util.js');

const Handler = require(path.join(PACKAGE, 'stores/next.js'));
const { FRESH, OVER, Tags } = require(path.join(PACKAGE, 'stores/next-tags.js'));
const request = () => new Handler({});
const page = (tags, html = '<p>') => ({ kind: 'APP_PAGE', html, rscData: Buffer.from('rsc'), headers: { 'x-next-cache-tags': tags } });
const lasting = { cacheControl: { revalidate: 3600, expire: 7200 } };

/** A request that makes a page and keeps it, and the seconds of its age in the next request; undefined: it is absent. */
const make = (key, tags) => request().set(key, page(tags), lasting);
const age = async (key) => {
  const entry = await request().get(key);
  return entry === null ? undefined : (Date.now() - entry.lastModified) / 1000;
};

let daemon;
test.before(async () => {
  daemon = await Daemon.start('--size=64M');
  process.env.TSLAB_POOL = daemon.socket;
});
after(() => daemon.stop());

test('pages are found by other requests, and not after their tags were revalidated', async () => {
  const saved = { ...page('shoes,/page'), segmentData: new Map([['/', Buffer.from('s')]]) };
  await request().set('/page', saved, {});
  assert.deepStrictEqual((await request().get('/page', {})).value, saved);
  await request().set('fetch', { kind: 'FETCH', data: {}, tags: ['hats'] }, { tags: ['hats'] });
  await request().revalidateTag('shoes');
  assert.strictEqual(await request().get('/page', {}), null);
  assert.notStrictEqual(await request().get('fetch', { softTags: ['other'] }), null);
  await request().revalidateTag(['hats', 'more']);
  assert.strictEqual(await request().get('fetch', {}), null);
  await make('/page', 'shoes');
  await request().set('/page', null, {});
  assert.strictEqual(await request().get('/page', {}), null);

  await make('/page', 'shoes');
  assert.deepStrictEqual((await request().get('/page', {})).cacheControl, lasting.cacheControl);
  // With a profile it is stale by its age, and another process makes it anew meanwhile.
  await request().revalidateTag('shoes', { expire: 600 });
  assert.ok((await age('/page')) > 3600 && (await age('/page')) < 7200);
  await make('/page', 'shoes');
  assert.ok((await age('/page')) < 60);
  await request().revalidateTag('shoes', { expire: 0 });
  assert.strictEqual(await age('/page'), undefined);
});

test('a page is of one build, and what was fetched of all', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'tslab-next-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const [blue, green, unbuilt] = ['blue', 'green', ''].map((id) => {
    const dist = path.join(folder, id || 'unbuilt');
    mkdirSync(path.join(dist, 'server'), { recursive: true });
    if (id) writeFileSync(path.join(dist, 'BUILD_ID'), id);
    return () => new Handler({ serverDistDir: path.join(dist, 'server') });
  });
  await blue().set('/build', page('built', 'blue'), lasting);
  assert.strictEqual((await blue().get('/build')).value.html, 'blue');
  for (const other of [green, unbuilt, request]) assert.strictEqual(await other().get('/build'), null);
  await green().set('/build', page('built', 'green'), lasting);
  assert.strictEqual((await blue().get('/build')).value.html, 'blue');
  await green().set('/build', null);
  assert.strictEqual(await green().get('/build'), null);
  await blue().set('hash', { kind: 'FETCH', data: { body: 'b' } }, { tags: ['built'] });
  assert.strictEqual((await green().get('hash', { kind: 'FETCH' })).value.data.body, 'b');
  await green().revalidateTag('built');
  for (const key of ['/build', 'hash']) assert.strictEqual(await blue().get(key), null);
});

test('an empty BUILD_ID, as while it is being written, is none yet', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'tslab-next-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const built = () => new Handler({ serverDistDir: path.join(folder, 'server') });
  writeFileSync(path.join(folder, 'BUILD_ID'), '');
  await built().set('/early', page('early'), lasting);
  writeFileSync(path.join(folder, 'BUILD_ID'), 'id');
  assert.strictEqual(await built().get('/early'), null);
  await built().set('/early', page('early'), lasting);
  assert.notStrictEqual(await built().get('/early'), null);
});

test('an image serves the next build', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'tslab-next-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const of = (id) => {
    mkdirSync(path.join(folder, id));
    writeFileSync(path.join(folder, id, 'BUILD_ID'), id);
    return new Handler({ serverDistDir: path.join(folder, id, 'server') });
  };
  await of('old').set('image', { kind: 'IMAGE', buffer: Buffer.from('png'), revalidate: 60 }, { kind: 'IMAGE' });
  assert.strictEqual((await of('new').get('image', { kind: 'IMAGE' })).value.buffer.toString(), 'png');
});

test('a page that was begun before its tag was revalidated is not found', async () => {
  const maker = request();
  assert.strictEqual(await maker.get('/begun', {}), null);
  await request().revalidateTag('begun');
  await maker.set('/begun', page('begun'), {});
  assert.strictEqual(await age('/begun'), undefined);
  // Nor is one that was not asked for before it was made, as by res.revalidate(): its handler was there when that began.
  const orderly = request();
  await request().revalidateTag('begun');
  await orderly.set('/ordered', page('begun'), {});
  assert.strictEqual(await age('/ordered'), undefined);
});

test('two requests of one process that make one page', async () => {
  for (const first of [0, 1]) {
    const makers = [request(), request()];
    for (const maker of makers) assert.strictEqual(await maker.get('/two', {}), null);
    await request().revalidateTag('two');
    await makers[first].set('/two', page('two'), {});
    assert.strictEqual(await age('/two'), undefined);
    await makers[1 - first].set('/two', page('two'), {});
    assert.strictEqual(await age('/two'), undefined);
  }
  // One handler, which makes a page twice at once.
  const maker = request();
  await maker.get('/two', {});
  await request().revalidateTag('two');
  await maker.get('/two', {});
  for (let i = 0; i < 2; i++) {
    await maker.set('/two', page('two'), {});
    assert.strictEqual(await age('/two'), undefined);
  }
  await maker.get('/two', {});
  await maker.set('/two', page('two'), {});
  assert.notStrictEqual(await age('/two'), undefined);
});

test('an old page that Next.js keeps, as the new one failed, is not a new page', async () => {
  await make('/kept', 'kept');
  await request().revalidateTag('kept', { expire: 1 });
  const end = performance.now() + 1000;
  const maker = request();
  const stale = await maker.get('/kept', {});
  await maker.set('/kept', stale.value, { cacheControl: { revalidate: 30, expire: 7200 } });
  if (performance.now() < end - 500) assert.ok((await age('/kept')) < 30); // tried again after a while, and not at once
  await sleep(end - performance.now() + 10);
  assert.strictEqual(await age('/kept'), undefined);
});

test('an entry that does not say when it was begun is not found', async () => {
  const cache = new tslab.Cache(tslab.open(daemon.socket), { name: 'next', serializer: 'v8' });
  for (const entry of [{ value: page('t'), lastModified: Date.now(), tags: ['t'] }, 'text', 5, null, { since: NaN, tags: [] }]) {
    for (const key of ['page::/of-another', 'entry:/of-another']) cache.set(key, entry);
    assert.strictEqual(await age('/of-another'), undefined);
    await make('/of-another', 't');
    assert.notStrictEqual(await age('/of-another'), undefined);
  }
});

test('a tag that is revalidated again, with other ends', async () => {
  const first = async (name, ...more) => {
    await make(`/before/${name}`, name);
    await request().revalidateTag(name, { expire: 1 });
    await make(`/between/${name}`, name);
    for (const durations of more) await request().revalidateTag(name, durations);
  };
  const begun = performance.now();
  const rising = Array.from({ length: 1000 }, (_, i) => ({ expire: 600 + i }));
  await first('later', { expire: 600 });
  await first('endless', {}, { expire: Infinity });
  await first('rising', ...rising);
  await first('sooner', { expire: 600 }, { expire: 0.5 });
  const ages = async (name) => [(await age(`/before/${name}`)) > 600, (await age(`/between/${name}`)) > 600];
  if (performance.now() < begun + 400)
    for (const name of ['later', 'endless', 'rising', 'sooner']) assert.deepStrictEqual(await ages(name), [true, true], name);
  await sleep(1010);
  // A page from before the first one is over when that said; one from after it is not, as the later one said.
  for (const name of ['later', 'endless', 'rising']) assert.deepStrictEqual(await ages(name), [false, true], name);
  assert.deepStrictEqual(await ages('sooner'), [false, false]);
  const records = tslab.open(daemon.socket).map('next-tags');
  for (const [key, value] of records.entries()) if (/^tag/.test(key)) assert.ok(value.length < 300, `${key} has ${value.length} bytes`);
});

test('tags and keys that are longer than a key of a map can be', async () => {
  const long = (end) => 'ü'.repeat(5000) + end;
  for (const [key, tag, other] of [['/long', long('a'), long('b')], [long('/'), 'short', 'shorter'], [long('1'), long('c'), long('')]]) {
    await make(key, tag);
    assert.notStrictEqual(await age(key), undefined);
    assert.strictEqual(await age(`${key}/other`), undefined);
    await request().revalidateTag(other);
    assert.notStrictEqual(await age(key), undefined);
    await request().revalidateTag(tag);
    assert.strictEqual(await age(key), undefined);
    await make(key, tag);
    await request().set(key, null, {});
    assert.strictEqual(await age(key), undefined);
  }
});

test('the records of tags do not grow without bound, and a page whose record went is over', async () => {
  await make('/first', 'name 0');
  const records = tslab.open(daemon.socket).map('next-tags');
  for (let i = 0; i < 200; i++) await request().revalidateTag(Array.from({ length: 1000 }, (_, j) => `name ${1000 * i + j}`));
  assert.ok(records.count() < 132000, `${records.count()} records`);
  assert.strictEqual(await age('/first'), undefined);
  await make('/first', 'name 0');
  assert.notStrictEqual(await age('/first'), undefined);
});

/** Revalidates n tags, of which no page from before may be found at any time, and one from after is. */
async function revalidateMany(tags, n) {
  const begun = [];
  for (let i = 0; i < n; i++) {
    begun.push(tags.now());
    await tags.update([`t${i}`], i % 3 === 0 ? { expire: 0 } : undefined);
    assert.strictEqual(tags.look(tags.now(), [`t${i}`]), FRESH);
    const other = Math.floor(Math.random() * begun.length);
    assert.strictEqual(tags.look(begun[other], [`t${other}`]), OVER);
  }
  for (let i = 0; i < n; i++) assert.strictEqual(tags.look(begun[i], [`t${i}`]), OVER);
}

test('records go, and no page comes back', async () => {
  const pool = tslab.create({ size: 64 << 20 });
  const tags = new Tags(pool, 500);
  await revalidateMany(tags, IS_FULL ? 1000000 : 20000);
  const records = pool.map('next-tags');
  assert.ok(records.count() < 600, `${records.count()} records`);
  // Tags that are revalidated again and again have one record each, and end no page of others.
  const begun = tags.now();
  for (let i = 0; i < 20000; i++) await tags.update([`again ${i % 100}`]);
  assert.strictEqual(tags.look(begun, ['again']), FRESH);
  pool.close();
});

test('several processes drop records at once, and some are killed', async () => {
  const pool = tslab.open(daemon.socket);
  pool.map('next-tags').clear();
  const children = Array.from({ length: 4 }, () => child('revalidate', daemon.socket, 200, IS_FULL ? 100000 : 3000));
  const all = Promise.all(children.map(ended));
  const late = child('revalidate', daemon.socket, 200, 1e9);
  await sleep(500);
  late.kill('SIGKILL');
  assert.deepStrictEqual(await all, [0, 0, 0, 0]);
  assert.ok(pool.map('next-tags').count() < 600, `${pool.map('next-tags').count()} records`);
  pool.map('next-tags').clear();
});

test('records that somebody deletes', async () => {
  const records = tslab.open(daemon.socket).map('next-tags');
  const lose = [() => records.clear(), () => records.delete('count'), () => records.delete('floor')];
  for (const [i, how] of lose.entries()) {
    await make(`/lost/${i}`, 'lost');
    await request().revalidateTag('lost');
    how();
    assert.strictEqual(await age(`/lost/${i}`), undefined, String(how));
    await make(`/lost/${i}`, 'lost');
    assert.notStrictEqual(await age(`/lost/${i}`), undefined, String(how));
    assert.strictEqual(await request().get('/lost/other'), null);
    await request().revalidateTag('lost');
    assert.strictEqual(await age(`/lost/${i}`), undefined, String(how));
  }
});

test('a record that goes while an entry is looked at', async () => {
  const pool = tslab.open(daemon.socket);
  const tags = new Tags(pool);
  const begun = tags.now();
  await tags.update(['goes']);
  const { get } = tslab.Cache.prototype;
  let drops = 0;
  // After the first of its reads, another process revalidates so many tags that the older records go.
  tslab.Cache.prototype.get = function (key) {
    const value = get.call(this, key);
    if (drops++ === 0) execFileSync(process.execPath, [path.join(__dirname, 'jobs.js'), 'revalidate', JSON.stringify([daemon.socket, 20, 200])]);
    return value;
  };
  try {
    assert.strictEqual(tags.look(begun, ['goes']), OVER);
  } finally {
    tslab.Cache.prototype.get = get;
  }
  assert.strictEqual(pool.map('next-tags').has('tag:goes'), false);
});

test('records that cannot be read', async () => {
  const records = tslab.open(daemon.socket).map('next-tags');
  const bad = [Buffer.from('d9d9f7ff', 'hex'), 'text', Buffer.from('d9d9f7f6', 'hex')]; // no value, a string, null
  for (const [i, key] of ['tag:bad', 'count', 'floor'].entries())
    for (const [j, bytes] of (i === 0 ? [...bad, Buffer.from('d9d9f705', 'hex')] : bad).entries()) {
      const url = `/bad/${i}/${j}`;
      await make(url, 'bad');
      await request().revalidateTag('bad');
      records.put(key, bytes);
      assert.strictEqual(await age(url), undefined);
      await make(url, 'bad');
      assert.notStrictEqual(await age(url), undefined);
      records.put(key, bytes);
      await request().revalidateTag('bad');
      assert.strictEqual(await age(url), undefined);
      await make(url, 'bad');
      assert.notStrictEqual(await age(url), undefined);
    }
});

test('a clock that was set back, and records that were lost', async () => {
  const pool = tslab.create({ size: 16 << 20 });
  const begun = new Tags(pool).now() + 3600e6; // when the clock was an hour ahead
  pool.map('next-tags').clear();
  const tags = new Tags(pool);
  await tags.update(['t']);
  assert.strictEqual(tags.look(begun, ['t']), OVER);
  assert.strictEqual(tags.look(tags.now(), ['t']), FRESH);
  pool.close();
});

test('a pool that has no room for a record', async () => {
  const pool = tslab.create({ size: 8 << 20 });
  const tags = new Tags(pool);
  await tags.update(['had a record']);
  const begun = tags.now();
  fillPool(pool);
  const names = Array.from({ length: 5000 }, (_, i) => `no room ${i}`);
  await tags.update(names);
  for (const name of names) assert.strictEqual(tags.look(begun, [name]), OVER);
  assert.strictEqual(tags.look(tags.now(), names), FRESH);
  pool.close();
});

// The last one, since the others' daemon has new memory after it.
test('new memory', async () => {
  await make('/old', 'new');
  await daemon.end();
  await daemon.begin('--fresh');
  await waitFor(async () => (await age('/old')) === undefined);
  await make('/page', 'new');
  assert.notStrictEqual(await age('/page'), undefined);
  await request().revalidateTag('new');
  assert.strictEqual(await age('/page'), undefined);
});

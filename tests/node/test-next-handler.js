'use strict';
// The cache handler for Next.js, called as Next.js calls it: a handler is made for each request.

const assert = require('node:assert');
const path = require('node:path');
const { after, test } = require('node:test');
const { Daemon, PACKAGE, sleep, tslab, waitFor } = require('./util.js');

const Handler = require(path.join(PACKAGE, 'stores/next.js'));
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
    cache.set('entry:/of-another', entry);
    assert.strictEqual(await age('/of-another'), undefined);
    await make('/of-another', 't');
    assert.notStrictEqual(await age('/of-another'), undefined);
  }
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

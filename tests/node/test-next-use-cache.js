'use strict';
// The cache handler for 'use cache', called as Next.js calls it.

const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const path = require('node:path');
const { after, test } = require('node:test');
const { Daemon, PACKAGE, sleep, waitFor } = require('./util.js');

const FILE = path.join(PACKAGE, 'stores/next-use-cache.js');
const handler = require(FILE);
const now = () => performance.timeOrigin + performance.now();

/** Another process's handler: its own code, on the same pool. */
function another() {
  for (const file of Object.keys(require.cache)) if (/stores\/next/.test(file)) delete require.cache[file];
  return require(FILE);
}

const stream = (...chunks) =>
  new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(Buffer.from(chunk));
      controller.close();
    },
  });
const entry = (text, tags = [], more = {}) => ({ value: stream(text), tags, stale: 300, timestamp: now(), expire: 3600, revalidate: 900, ...more });
const read = async (found) => found && Buffer.from(await new Response(found.value).arrayBuffer()).toString();
const text = async (key, softTags) => read(await handler.get(key, softTags));

/** What Next.js does for a key that is absent. */
async function make(key, text, tags, more) {
  await handler.refreshTags();
  await handler.get(key, []);
  await handler.set(key, Promise.resolve(entry(text, tags, more)));
}

let daemon;
test.before(async () => {
  daemon = await Daemon.start('--size=64M');
  process.env.TSLAB_POOL = daemon.socket;
});
after(() => daemon.stop());

test('an entry is found by other processes, as often as it is asked for', async () => {
  const made = entry('', ['a', 'b'], { value: stream('one ', 'two'), timestamp: now() });
  await handler.get('key', []);
  await handler.set('key', Promise.resolve({ ...made, timestamp: now() }));
  for (const one of [handler, another(), handler]) {
    const { value, timestamp, ...found } = await one.get('key', []);
    assert.ok(timestamp <= now() && timestamp > now() - 60000);
    assert.deepStrictEqual(found, { tags: ['a', 'b'], stale: 300, expire: 3600, revalidate: 900 });
    assert.strictEqual(await read({ value }), 'one two');
  }
  assert.strictEqual(await handler.get('other', []), undefined);
  assert.strictEqual(await handler.getExpiration(['a']), Infinity);
  const long = 'k'.repeat(10000);
  await make(long, 'long');
  assert.strictEqual(await text(long), 'long');
  assert.strictEqual(await text(`${long}k`), undefined);
});

test('tags, and those of the route', async () => {
  const other = another();
  for (const [tags, softTags] of [[['shoes'], []], [[], ['shoes']]]) {
    await make('tagged', 'old', tags);
    await other.updateTags(['hats']);
    assert.strictEqual(await text('tagged', softTags), 'old');
    await other.updateTags(['shoes', 'more']);
    assert.strictEqual(await text('tagged', softTags), undefined);
    await make('tagged', 'old', tags);
    // Stale: Next.js makes it anew meanwhile.
    await other.updateTags(['shoes'], { expire: 1 });
    const end = performance.now() + 1000;
    const stale = await handler.get('tagged', softTags);
    if (performance.now() < end - 500) assert.deepStrictEqual([stale.revalidate, await read(stale)], [-1, 'old']);
    await sleep(end - performance.now() + 10);
    assert.strictEqual(await text('tagged', softTags), undefined);
    await make('tagged', 'new', tags);
    assert.strictEqual((await handler.get('tagged', softTags)).revalidate, 900);
  }
});

test('an entry that was begun before a tag was revalidated is not found', async () => {
  await handler.get('race', []);
  const [first, second] = [entry('first', ['race']), entry('second', ['race'])];
  await another().updateTags(['race']);
  await handler.get('race', []); // as another request does
  for (const made of [first, second]) {
    await handler.set('race', Promise.resolve(made));
    assert.strictEqual(await text('race'), undefined);
  }
  await make('race', 'third', ['race']);
  assert.strictEqual(await text('race'), 'third');
});

test('an entry that is being set is waited for, and one that fails is not kept', async () => {
  await handler.get('slow', []);
  let finish;
  const set = handler.set('slow', new Promise((resolve) => (finish = resolve)));
  const found = text('slow');
  finish(entry('slow'));
  assert.strictEqual(await found, 'slow');
  await set;
  const failing = new ReadableStream({
    start(controller) {
      controller.enqueue(Buffer.from('part'));
      controller.error(new Error('the render failed'));
    },
  });
  await handler.set('failing', Promise.resolve(entry('', [], { value: failing })));
  await handler.set('rejected', Promise.reject(new Error('the render failed')));
  const silent = new ReadableStream({ start: (controller) => controller.error() }); // as where a stream is cancelled
  await handler.set('silent', Promise.resolve(entry('', [], { value: silent })));
  await handler.set('no reason', Promise.reject());
  for (const key of ['failing', 'rejected', 'silent', 'no reason']) assert.strictEqual(await text(key), undefined);
});

test('lifetimes', async () => {
  await make('dynamic', 'x', [], { expire: 0 });
  assert.strictEqual(await text('dynamic'), undefined);
  await make('ends', 'x', [], { expire: 0.3 });
  await waitFor(async () => (await text('ends')) === undefined);
  await make('endless', 'x', [], { expire: 0xfffffffe });
  assert.strictEqual(await text('endless'), 'x');
  await make('old', 'x', [], { timestamp: now() - 7200000 });
  assert.strictEqual(await text('old'), undefined);
});

test('without a pool nothing is found, and nothing fails', () => {
  const program = `
    const handler = require(${JSON.stringify(FILE)});
    const entry = { value: new Response('x').body, tags: [], stale: 1, timestamp: Date.now(), expire: 60, revalidate: 30 };
    (async () => {
      await handler.refreshTags();
      await handler.get('key', []);
      await handler.set('key', Promise.resolve(entry));
      const found = await handler.get('key', []);
      // Nobody is to think that tags were revalidated which were not.
      const error = await handler.updateTags(['t']).catch((error) => error);
      console.log(found, error.code);
    })();
  `;
  const env = { ...process.env, TSLAB_POOL: '/nowhere.sock', NODE_NO_WARNINGS: '1' };
  assert.strictEqual(execFileSync(process.execPath, ['-e', program], { env, encoding: 'utf8' }), 'undefined ENOENT\n');
});

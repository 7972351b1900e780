'use strict';
// Real applications: 'next build', and two 'next start' that share pages and tags, or values of 'use cache', of which one is
// killed. Next.js comes from npm; where it does not, the test is skipped.

const assert = require('node:assert');
const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { after, test } = require('node:test');
const { Daemon, PACKAGE, installPackages, sleep, waitFor } = require('./util.js');
const { FUNCTIONS, PAGES } = require('./next-app.js');

const folder = installPackages(['next@16', 'react@19', 'react-dom@19']);
const next = path.join(folder, 'node_modules/next/dist/bin/next');
fs.writeFileSync(path.join(folder, 'package.json'), '{}');
// Next.js wants its cache handler below its own folder.
fs.cpSync(PACKAGE, path.join(folder, 'node_modules/tslab'), { recursive: true, dereference: true });

const library = path.join(PACKAGE, '../../libclient');
const environment = (socket) => {
  const { NODE_TEST_CONTEXT: _, ...rest } = process.env;
  return { ...rest, TSLAB_POOL: socket, NEXT_TELEMETRY_DISABLED: '1', LD_LIBRARY_PATH: library };
};

/** Builds an application, without a pool: nothing is cached, and the build goes on. */
function build(files) {
  for (const old of ['app', '.next']) fs.rmSync(path.join(folder, old), { recursive: true, force: true });
  for (const [name, text] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    fs.writeFileSync(path.join(folder, name), text);
  }
  const built = spawnSync(process.execPath, [next, 'build'], { cwd: folder, env: environment('/nowhere.sock'), encoding: 'utf8', timeout: 300000 });
  assert.strictEqual(built.status, 0, built.stdout + built.stderr);
}

async function start(env) {
  const server = spawn(process.execPath, [next, 'start', '-H', '127.0.0.1', '-p', '0'], { cwd: folder, env });
  after(() => server.kill('SIGKILL'));
  let output = '';
  for (const stream of [server.stdout, server.stderr]) stream.on('data', (data) => (output += data));
  const url = await waitFor(() => /Ready/.test(output) && output.match(/http:\/\/127\.0\.0\.1:\d+/)?.[0]);
  return {
    server,
    /** How Next.js says that the page was found, and the process and the number that made it. */
    get: async (id) => {
      const answer = await fetch(`${url}/item/${id}`);
      const [, made] = (await answer.text()).match(/<p id="made">([^<]*)/);
      return [answer.headers.get('x-nextjs-cache'), made];
    },
    revalidate: async (body) => {
      const answer = await fetch(`${url}/revalidate`, { method: 'POST', body: JSON.stringify(body) });
      assert.strictEqual(answer.status, 200);
    },
  };
}

test('pages and tags are shared by servers', async () => {
  const daemon = await Daemon.start('--size=64M');
  const env = environment(daemon.socket);
  build(PAGES);
  const [one, two] = await Promise.all([start(env), start(env)]);

  const [how, first] = await one.get(1);
  assert.strictEqual(how, 'MISS');
  assert.deepStrictEqual(await two.get(1), ['HIT', first]);
  // The other process knows the page's lifetime, too: without it Next.js takes one second.
  await sleep(1100);
  assert.deepStrictEqual(await two.get(1), ['HIT', first]);

  // Others at once, after they expired; the same in both.
  await two.get(2);
  for (const [server, other, body] of [[one, two, { tag: 'item-1', profile: { expire: 0 } }], [two, one, { path: '/item/1' }]]) {
    const [, old] = await other.get(1);
    await server.revalidate(body);
    const [, made] = await other.get(1);
    assert.notStrictEqual(made, old);
    assert.deepStrictEqual(await server.get(1), ['HIT', made]);
  }
  assert.strictEqual((await one.get(2))[0], 'HIT');

  // Stale first, while it is made anew.
  const [, old] = await one.get(1);
  await two.revalidate({ tag: 'item-1', profile: 'max' });
  assert.deepStrictEqual(await one.get(1), ['STALE', old]);
  await waitFor(async () => (await two.get(1))[0] === 'HIT');
  const [, fresh] = await two.get(1);
  assert.notStrictEqual(fresh, old);
  assert.deepStrictEqual(await one.get(1), ['HIT', fresh]);

  one.server.kill('SIGKILL');
  assert.deepStrictEqual(await two.get(1), ['HIT', fresh]);
  two.server.kill('SIGKILL');
  await daemon.stop();
});

test("values of 'use cache' are shared by servers", async () => {
  const daemon = await Daemon.start('--size=64M');
  const env = environment(daemon.socket);
  build(FUNCTIONS);
  const [one, two] = await Promise.all([start(env), start(env)]);
  const made = async (server, id) => (await server.get(id))[1].split(' ');

  const first = await made(one, 1);
  assert.notStrictEqual(first[0], first[1]);
  assert.deepStrictEqual(await made(two, 1), first);
  const other = await made(two, 2);
  for (const [server, next, body] of [[one, two, { tag: 'item-1', profile: { expire: 0 } }], [two, one, { path: '/item/1' }]]) {
    const old = await made(next, 1);
    await server.revalidate(body);
    const fresh = await made(next, 1);
    assert.ok(fresh.every((value, i) => value !== old[i]), `${fresh} after ${old}`);
    assert.deepStrictEqual(await made(server, 1), fresh);
  }
  assert.deepStrictEqual(await made(one, 2), other);

  // Stale first, while they are made anew.
  const old = await made(one, 1);
  await two.revalidate({ tag: 'item-1', profile: 'max' });
  assert.deepStrictEqual(await made(one, 1), old);
  const fresh = await waitFor(async () => {
    const now = await made(two, 1);
    return now.every((value, i) => value !== old[i]) && now;
  });
  assert.deepStrictEqual(await made(one, 1), fresh);

  one.server.kill('SIGKILL');
  assert.deepStrictEqual(await made(two, 1), fresh);
  two.server.kill('SIGKILL');
  await daemon.stop();
});

'use strict';
// The suites that packages have for their own stores, on ours. Published packages are without them: TSLAB_NODE_SUITES names a
// folder of checkouts, each by the name of its repository: session (of express), node-rate-limiter-flexible and cacheable. The
// packages themselves, in the versions of the checkouts, come from npm. Suites without a checkout are skipped.

const assert = require('node:assert');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { after, before, test } = require('node:test');
const { Daemon, PACKAGE, tryPackages } = require('./util.js');

const CHECKOUTS = process.env.TSLAB_NODE_SUITES ?? '';
const SKIP = 77;
const exists = (name) => CHECKOUTS !== '' && fs.existsSync(path.join(CHECKOUTS, name, 'package.json'));
if (!['session', 'node-rate-limiter-flexible', 'cacheable'].some(exists)) {
  console.log('skipped: TSLAB_NODE_SUITES names no folder with checkouts of the packages');
  process.exit(SKIP);
}

let daemon;
before(async () => {
  daemon = await Daemon.start('--size=256M');
});
after(() => daemon.stop());

/** The package of a checkout from npm, with what its suite needs, and with its tests. */
function prepare(folder, needed) {
  const checkout = path.join(CHECKOUTS, folder);
  const { name, version, devDependencies = {} } = JSON.parse(fs.readFileSync(path.join(checkout, 'package.json')));
  const versions = (other) => devDependencies[other]?.replace(/^workspace:/, '') ?? '*';
  const others = needed.map((other) => (other.includes('@', 1) ? other : `${other}@${versions(other)}`));
  const root = tryPackages([`${name}@${version}`, ...others]);
  assert.ok(root, `npm did not install ${name}@${version} and ${others.join(', ')}`);
  const place = path.join(root, 'node_modules', name);
  fs.cpSync(path.join(checkout, 'test'), path.join(place, 'test'), { recursive: true });
  return { name, place, bin: (file) => path.join(root, 'node_modules', file) };
}

function run(place, suite, command, ...args) {
  const env = { ...process.env, TSLAB_POOL: daemon.socket, TSLAB_TEST_SUITE: suite, NODE_ENV: 'test' };
  delete env.NODE_TEST_CONTEXT; // this process is a test of node's
  const done = spawnSync(command, args, { cwd: place, encoding: 'utf8', timeout: 300000, env });
  assert.strictEqual(done.status, 0, `${suite}: ${done.status ?? done.error}\n${done.stdout}\n${done.stderr}`.slice(-8000));
  return done.stdout;
}

/** How many tests have passed, of those that the reporter of mocha counts. */
function mocha({ name, place, bin }, ...args) {
  const more = ['--require', path.join(__dirname, 'suites.js'), '--reporter', 'json', '--exit', ...args];
  const output = run(place, name, process.execPath, bin('mocha/bin/mocha.js'), ...more);
  const { passes, failures, pending } = JSON.parse(output.slice(output.indexOf('{\n  "stats"'))).stats;
  assert.deepStrictEqual([failures, pending], [0, 0]);
  console.log(`# ${name}: ${passes} passed`);
  return passes;
}

const suite = (title, folder, work) => test(title, { skip: !exists(folder) && `no checkout ${folder}` }, work);

suite('express-session', 'session', () => {
  const made = prepare('session', ['after', 'cookie-parser', 'express', 'mocha', 'supertest']);
  run(made.place, made.name, 'sh', 'test/support/gencert.sh');
  assert.ok(mocha(made, '--require', './test/support/env', '--check-leaks', 'test/') >= 150);
});

suite('rate-limiter-flexible', 'node-rate-limiter-flexible', () => {
  const made = prepare('node-rate-limiter-flexible', ['chai', 'mocha', 'sinon']);
  assert.ok(mocha(made, 'test/RateLimiterMemcache.test.js') >= 24);
  // Lua is for Redis; and so are properties of its clients, by which a limiter knows that they are not connected.
  const others = ['--grep', 'customIncrTtlLuaScript|with disconnected node-redis|rejectIfRedisNotReady', '--invert'];
  assert.ok(mocha(made, ...others, 'test/RateLimiterRedis.redis.test.js') >= 40);
});

suite('cache-manager', 'cacheable/packages/cache-manager', () => {
  const { name, place, bin } = prepare('cacheable/packages/cache-manager', ['keyv@5', 'cacheable@*', 'vitest', '@faker-js/faker']);
  fs.mkdirSync(path.join(place, 'src'));
  fs.writeFileSync(path.join(place, 'src/index.ts'), "export * from 'cache-manager';");
  fs.writeFileSync(path.join(place, 'ours.mjs'), `
    import { createRequire } from 'node:module';
    import { Keyv as Real } from 'real-keyv';
    const require = createRequire(import.meta.url);
    const { KeyvTslab } = require('${path.join(PACKAGE, 'stores/keyv.js')}');
    const pool = require('${PACKAGE}').open();
    let n = 0;
    const ours = () => new KeyvTslab(pool, { name: \`\${process.pid}.\${n++}\` });
    // A Keyv without a store has one of ours, and so has one of Redis.
    export class Keyv extends Real {
      constructor(options, more) {
        const { store = ours(), ...others } = options?.get ? { store: options } : options ?? {};
        super({ store, ...others, ...more });
      }
    }
    export const createKeyv = () => new Keyv();
    export default class { constructor() { return ours(); } }
  `);
  fs.writeFileSync(path.join(place, 'vitest.config.mjs'), `
    const alias = Object.entries({ 'real-keyv': '${bin('keyv')}', keyv: './ours.mjs', '@keyv/redis': './ours.mjs' });
    export default {
      resolve: { alias: alias.map(([name, place]) => ({ find: new RegExp(\`^\${name}$\`), replacement: place.replace('.', '${place}') })) },
      // The file that is left out is of the stores of older versions.
      test: { include: ['test/*.test.ts'], exclude: ['test/keyv-adapter.test.ts'], server: { deps: { inline: ['cache-manager'] } } },
    };
  `);
  const output = run(place, name, process.execPath, bin('vitest/vitest.mjs'), 'run', '--root', place, '--reporter=json');
  const { numPassedTests, numFailedTests } = JSON.parse(output);
  assert.ok(numFailedTests === 0 && numPassedTests >= 70, output);
  console.log(`# ${name}: ${numPassedTests} passed`);
});

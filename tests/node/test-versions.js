'use strict';
// One build of the addon works with the oldest and the newest Node that are supported: programs of npm run the other tests
// with it. Without a registry the test is skipped.

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { PACKAGE } = require('./util.js');

const VERSIONS = [18, 24];
const TESTS = ['map', 'cache', 'threads', 'waits', 'daemon'];
const SKIP = 77;
const package_ = `node-linux-${process.arch}`;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tslab-npm-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));

function install(version) {
  const place = path.join(folder, String(version));
  const options = ['--no-audit', '--no-fund', '--silent', '--ignore-scripts', '--prefix', place];
  execFileSync('npm', ['install', ...options, `${package_}@${version}`], { timeout: 200000 });
  return path.join(place, 'node_modules', package_, 'bin/node');
}

let programs;
try {
  programs = VERSIONS.map(install);
} catch (error) {
  console.log(`skipped: npm did not install ${package_}: ${error.code ?? error.status}`);
  process.exit(SKIP);
}

for (const program of programs) {
  const version = execFileSync(program, ['--version'], { encoding: 'utf8' }).trim();
  for (const name of TESTS)
    test(`${name} with Node ${version}`, () => {
      // A runner inside a runner would report to the outer one.
      const { NODE_TEST_CONTEXT, ...env } = process.env;
      execFileSync(program, [path.join(__dirname, `test-${name}.js`), process.env.TSLAB_TEST_DAEMON, PACKAGE], { env, timeout: 120000 });
    });
}

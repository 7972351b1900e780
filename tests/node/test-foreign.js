'use strict';
// The package with the addon of a build for another processor, in a Node for that processor, which an emulator runs:
// node test-foreign.js SOURCE BUILD EMULATOR. Node comes from npm; where it does not, the test is skipped.

const assert = require('node:assert');
const { execFileSync, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const [source, build, emulator] = process.argv.slice(2);
const SKIP = 77;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tslab-foreign-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));

const arch = execFileSync(process.execPath, [path.join(source, 'package.js'), path.join(folder, 'tslab'), build], { encoding: 'utf8' }).trim();
const name = `node-${arch}`;
const options = ['--no-audit', '--no-fund', '--silent', '--ignore-scripts', '--force', '--prefix', folder];
if (spawnSync('npm', ['install', ...options, `${name}@20`], { timeout: 200000 }).status !== 0) {
  console.log(`skipped: npm did not install ${name}`);
  process.exit(SKIP);
}

fs.writeFileSync(path.join(folder, 'program.js'), `
  const tslab = require('./tslab');
  const pool = tslab.create({ size: 8 << 20 });
  const map = pool.map('m');
  map.put('alice', 'ü');
  const cache = new tslab.Cache(pool);
  cache.set('v', { list: [1] }, { tags: ['t'] });
  const said = [process.arch, map.getString('alice'), map.add('n', 5), cache.get('v').list[0], cache.invalidate('t'), cache.has('v')];
  cache.getOrCompute('k', async () => 7).then((value) => console.log(...said, value));
`);
const run = (...args) => execFileSync(emulator, ['-L', '/', path.join(folder, 'node_modules', name, 'bin/node'), ...args], {
  cwd: folder,
  encoding: 'utf8',
  timeout: 600000,
});
run('tslab/install.js'); // finds the addon of use
assert.strictEqual(run('program.js'), `${arch.split('-')[1]} ü 5 1 true false 7\n`);

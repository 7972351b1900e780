'use strict';
// The package as npm makes it of the tree: packed and installed without a registry, where libtslab is found by pkg-config;
// and with a prebuilt addon, where there is neither a compiler nor libtslab.
// Usage: node test-package.js TSLABD PACKAGE SOURCES PKG_CONFIG_PATH LD_LIBRARY_PATH BUILD

const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');

const [, , , , SOURCES, PKG_CONFIG_PATH, LD_LIBRARY_PATH, BUILD] = process.argv;
const SKIP = 77;

try {
  execFileSync('npm', ['--version']);
} catch {
  console.log('skipped: npm is not installed');
  process.exit(SKIP);
}

test('npm packs the package, and installs it offline', () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tslab-pack-'));
  try {
    const npm = (...args) =>
      execFileSync('npm', [...args, '--offline', '--no-audit', '--no-fund', `--nodedir=${path.resolve(process.execPath, '../..')}`], {
        cwd: folder,
        env: { ...process.env, PKG_CONFIG_PATH, HOME: folder },
        encoding: 'utf8',
      });
    const file = npm('pack', '--silent', SOURCES).trim();
    fs.writeFileSync(path.join(folder, 'package.json'), '{}');
    npm('install', `./${file}`);
    const run = (...args) =>
      execFileSync(process.execPath, args, { cwd: folder, env: { ...process.env, LD_LIBRARY_PATH }, encoding: 'utf8' });
    const program = "const map = tslab.create().map('m'); map.put('k', 'value'); console.log(map.getString('k'))";
    assert.strictEqual(run('-e', `const tslab = require('tslab'); ${program}`), 'value\n');
    assert.strictEqual(run('--input-type=module', '-e', `import * as tslab from 'tslab'; ${program}`), 'value\n');
    assert.strictEqual(run('-p', "typeof require('tslab/keyv').KeyvTslab"), 'function\n');
    // Every export of one form is one of the other.
    const names = "JSON.stringify(Object.keys(tslab).filter((name) => name !== 'default' && name !== 'module.exports').sort())";
    assert.strictEqual(
      run('--input-type=module', '-e', `import * as tslab from 'tslab'; console.log(${names})`),
      run('-e', `const tslab = require('tslab'); console.log(${names})`),
    );
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
});

test('npm installs the package with a prebuilt addon where nothing can be built', () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tslab-prebuilt-'));
  try {
    const run = (program, args, env) => execFileSync(program, args, { cwd: folder, env, encoding: 'utf8' });
    assert.strictEqual(run(process.execPath, [path.join(SOURCES, 'package.js'), `${folder}/package`, BUILD]), `linux-${process.arch}\n`);
    fs.writeFileSync(path.join(folder, 'package.json'), '{}');
    // Without a registry, and with a node-gyp that fails.
    const env = { ...process.env, HOME: folder, npm_config_node_gyp: '/bin/false', CC: '/bin/false', PKG_CONFIG_PATH: '/nonexistent' };
    const file = run('npm', ['pack', '--silent', './package', '--offline'], env).trim();
    run('npm', ['install', `./${file}`, '--offline', '--no-audit', '--no-fund'], env);
    assert.ok(!fs.existsSync(path.join(folder, 'node_modules/tslab/build')), 'it was built');
    const program = "const map = require('tslab').create().map('m'); map.put('k', 'value'); console.log(map.getString('k'))";
    const { LD_LIBRARY_PATH: _, ...bare } = env;
    assert.strictEqual(run(process.execPath, ['-e', program], bare), 'value\n');
    assert.ok(!run('ldd', ['node_modules/tslab/prebuilds/linux-' + process.arch + '/tslab.node'], bare).includes('libtslab'));
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
});

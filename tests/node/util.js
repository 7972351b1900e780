'use strict';
// A real tslabd in a runtime directory of its own, and the package as meson has built it.
// Usage of a test: node test-NAME.js TSLABD PACKAGE; both come to children by their environment.

const assert = require('node:assert');
const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const TSLABD = process.env.TSLAB_TEST_DAEMON ?? process.argv[2];
const PACKAGE = process.env.TSLAB_TEST_PACKAGE ?? process.argv[3];
process.env.TSLAB_TEST_DAEMON = TSLABD;
process.env.TSLAB_TEST_PACKAGE = PACKAGE;

const IS_FULL = process.env.TSLAB_TEST_FULL !== undefined;
const SKIP = 77;
const SECONDS = 60; // for a state to come, while other tests run and on slower machines

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function waitFor(condition) {
  const end = performance.now() + SECONDS * 1000;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (performance.now() > end) throw new Error(`waited in vain for ${condition}`);
    await sleep(5);
  }
}

/** Whether a pool can be opened there now. */
function answers(socket) {
  try {
    require(PACKAGE).open(socket).close();
    return true;
  } catch (error) {
    if (['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'ETIMEDOUT'].includes(error.code)) return false;
    throw error;
  }
}

class Daemon {
  static async start(...options) {
    const daemon = new Daemon();
    daemon.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tslab-test-'));
    daemon.socket = path.join(daemon.folder, 'default.sock');
    daemon.options = options;
    await daemon.begin();
    return daemon;
  }

  async begin(...more) {
    const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TSLAB_')));
    // It ends by itself after a test that was killed.
    this.process = spawn(TSLABD, ['--log-level=warning', '--exit-idle=600', ...this.options, ...more], {
      env: { ...environment, TSLAB_RUNTIME_DIR: this.folder, MEMORY_PRESSURE_WATCH: '/dev/null' },
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    this.ended = new Promise((resolve) => this.process.on('exit', resolve));
    await waitFor(() => {
      if (this.process.exitCode !== null) throw new Error(`tslabd ended with ${this.process.exitCode}`);
      return answers(this.socket);
    });
  }

  async end(signal = 'SIGTERM') {
    this.process.kill(signal);
    return this.ended;
  }

  async stop() {
    const status = await this.end();
    fs.rmSync(this.folder, { recursive: true, force: true });
    if (status !== 0) throw new Error(`tslabd ended with ${status}`);
  }
}

/** A child that runs a function of jobs.js with these arguments. */
function child(name, ...args) {
  return spawn(process.execPath, [path.join(__dirname, 'jobs.js'), name, JSON.stringify(args)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

const ended = (process) => new Promise((resolve) => process.on('close', (status, signal) => resolve(signal ?? status)));

/** Installs packages of npm into a folder of the test's own, without running what they would run; undefined: it cannot. */
function tryPackages(names) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tslab-npm-'));
  process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
  const options = ['--no-audit', '--no-fund', '--silent', '--ignore-scripts', '--prefix', folder];
  const { status } = spawnSync('npm', ['install', ...options, ...names], { timeout: 200000 });
  return status === 0 ? folder : undefined;
}

/** As tryPackages(); the test is skipped where it cannot. */
function installPackages(names) {
  const folder = tryPackages(names);
  if (folder !== undefined) return folder;
  console.log(`skipped: npm did not install ${names.join(', ')}`);
  return process.exit(SKIP);
}

/** Puts values of several sizes into the pool, until it has room for none. */
function fillPool(pool) {
  const map = pool.map('full');
  for (const size of [4000, 400, 1]) {
    try {
      for (let i = 0; ; i++) map.put(`${size} ${i}`, Buffer.alloc(size));
    } catch (error) {
      assert.strictEqual(error.code, 'ENOMEM');
    }
  }
}

module.exports = {
  Daemon, IS_FULL, PACKAGE, SECONDS, TSLABD, child, ended, fillPool, installPackages,
  sleep, tryPackages, waitFor, tslab: require(PACKAGE),
};

'use strict';
// A daemon that the first process starts where nobody runs one: detached, and ended by itself once nobody is connected.

const { spawn, spawnSync } = require('node:child_process');
const path = require('node:path');

const ABSENT = new Set(['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'ENOTCONN', 'EPIPE']);
const OPTIONS = new Set(['program', 'size', 'idle', 'threads', 'retain', 'keep', 'mode', 'group']);
const LOOK_MS = 5;

/** Arguments and environment of a tslabd for this pool, which has a name or the path of its socket. */
function described(name, { program = 'tslabd', idle = 60, ...settings }) {
  const unknown = Object.keys(settings).find((key) => !OPTIONS.has(key));
  if (unknown !== undefined) throw new RangeError(`start has no option ${unknown}`);
  const pool = name || process.env.TSLAB_POOL || 'default';
  const { TSLAB_POOL: _, ...env } = process.env;
  const args = [`--exit-idle=${idle}`, '--log-level=warning', ...Object.entries(settings).map(([key, value]) => `--${key}=${value}`)];
  if (pool.includes('/')) {
    // Its other files lie beside the socket, by the name of the pool: pools of two sockets are two pools.
    const base = path.basename(pool, '.sock').toLowerCase().replace(/[^a-z0-9_]/g, '_').replace(/^_+/, '').slice(0, 32);
    args.push(`--listen=${path.resolve(pool)}`, `--pool=${base || 'default'}`);
    env.TSLAB_RUNTIME_DIR = path.dirname(path.resolve(pool));
  } else {
    args.push(`--pool=${pool}`);
  }
  return { program, args, options: { env, cwd: '/', stdio: ['ignore', 'ignore', 'pipe'], encoding: 'utf8' } };
}

function check({ program, args, options }) {
  const { error, status, stderr } = spawnSync(program, ['--check-config', ...args], options);
  if (error) throw new Error(`${program} cannot be started (${error.code}): install the daemon of tslab, or name it in start.program`);
  if (status !== 0) throw new RangeError(`${program} refuses its settings: ${stderr.trim()}`);
}

/**
 * Opens a pool by `open`, and starts its daemon where there is none. Several processes may do so at once: of their daemons
 * one serves, and the others end. Waits for it, for up to so many seconds.
 */
function openStarted(open, name, start, timeout) {
  const daemon = described(name, start === true ? {} : start);
  const end = performance.now() + timeout * 1000;
  const pause = new Int32Array(new SharedArrayBuffer(4));
  let started = 0;
  for (;;) {
    try {
      return open();
    } catch (error) {
      if (!ABSENT.has(error.code)) throw error;
      const now = performance.now();
      if (now > end) throw error;
      if (started === 0) check(daemon);
      // Another process's daemon may have been the one that serves, and have ended since.
      if (started === 0 || now > started + 1000) {
        spawn(daemon.program, daemon.args, { ...daemon.options, stdio: 'ignore', detached: true }).on('error', () => {}).unref();
        started = now;
      }
      Atomics.wait(pause, 0, 0, LOOK_MS);
    }
  }
}

module.exports = { openStarted };

'use strict';
// A daemon that the first process starts where nobody runs one: detached, and ended by itself once nobody is connected.

const { spawnSync } = require('node:child_process');
const { createHash } = require('node:crypto');
const { statSync } = require('node:fs');
const path = require('node:path');

const ABSENT = new Set(['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'ENOTCONN', 'EPIPE']);
const OPTIONS = new Set(['program', 'size', 'idle', 'threads', 'retain', 'keep', 'mode', 'group']);
const LOOK_MS = 5;
// Of a service manager: it is this process's, not the daemon's.
const MANAGER = ['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID', 'LISTEN_FDS', 'LISTEN_PID', 'LISTEN_FDNAMES',
  'MEMORY_PRESSURE_WATCH', 'MEMORY_PRESSURE_WRITE'];

/** Whoever can make files beside a socket can serve it first, and read what this process puts. */
function checkFolder(folder) {
  const { uid, mode } = statSync(folder);
  if (mode & 0o002 || (uid !== 0 && uid !== process.geteuid())) {
    throw new RangeError(`start: other users can make files in ${folder}: name a socket in a folder of your own`);
  }
}

/**
 * The daemon's other files lie beside the socket, by the name of the pool: pools of two sockets are two pools. A name
 * that is not that of the socket's file has a part by which it differs from all others.
 */
function poolName(socket) {
  const base = path.basename(socket, '.sock');
  if (/^[a-z0-9][a-z0-9_]{0,31}$/.test(base)) return base;
  const text = base.toLowerCase().replace(/[^a-z0-9_]/g, '_').replace(/^_+/, '').slice(0, 22) || 'pool';
  return `${text}_${createHash('sha256').update(base).digest('hex').slice(0, 8)}`;
}

/** Arguments and environment of a tslabd for this pool, which has a name or the path of its socket. */
function described(name, { program = 'tslabd', idle = 60, ...settings }) {
  const unknown = Object.keys(settings).find((key) => !OPTIONS.has(key));
  if (unknown !== undefined) throw new RangeError(`start has no option ${unknown}`);
  const pool = name || process.env.TSLAB_POOL || 'default';
  const { TSLAB_POOL: _, ...env } = process.env;
  for (const variable of MANAGER) delete env[variable];
  if (program.includes('/')) {
    program = path.resolve(program);
    env.PATH = `${path.dirname(program)}:${env.PATH ?? ''}`;        // its tslabctl, which keeps maps
  }
  const args = [`--exit-idle=${idle}`, '--log-level=warning', ...Object.entries(settings).map(([key, value]) => `--${key}=${value}`)];
  if (pool.includes('/')) {
    const socket = path.resolve(pool);
    checkFolder(path.dirname(socket));
    args.push(`--listen=${socket}`, `--pool=${poolName(socket)}`);
    env.TSLAB_RUNTIME_DIR = path.dirname(socket);
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

/** Nobody's child: pm2 ends all children of a process that it ends, and a thread that has ended reaps none. */
function launch({ program, args, options }) {
  spawnSync('sh', ['-c', 'setsid "$0" "$@" &', program, ...args], { ...options, stdio: 'ignore' });
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
        launch(daemon);
        started = now;
      }
      Atomics.wait(pause, 0, 0, LOOK_MS);
    }
  }
}

module.exports = { openStarted };

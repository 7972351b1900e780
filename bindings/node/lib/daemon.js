'use strict';
// Starts a tslabd where none runs: the first process does it, detached. The daemon ends by itself once nobody is connected.

const { spawnSync } = require('node:child_process');
const { createHash } = require('node:crypto');
const { closeSync, constants, mkdtempSync, openSync, readSync, rmSync, statSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const ABSENT = new Set(['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'ENOTCONN', 'EPIPE']);
const OPTIONS = new Set(['program', 'size', 'idle', 'threads', 'retain', 'keep', 'mode', 'group']);
const LOOK_MS = 5;
const AGAIN_MS = 100;
const SILENT_MAX = 3;
const OTHER = 'is served by another tslabd already';     // of daemon/peer/listener.c and daemon/takeover/takeover.c
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

/** A container may have no folder for temporary files, or one that nobody can write to. */
function makeFolder() {
  try {
    return mkdtempSync(path.join(os.tmpdir(), 'tslab-'));
  } catch {
    return mkdtempSync('/dev/shm/tslab-');
  }
}

/** The last words of a daemon: a pipe, of which it has the other end until it ends. */
class Words {
  #fd;
  #text = '';

  constructor() {
    const folder = makeFolder();
    try {
      this.path = path.join(folder, 'words');
      const { error, status } = spawnSync('mkfifo', ['-m', '600', this.path], { stdio: 'ignore' });
      if (error || status !== 0) throw new Error(`start: no pipe can be made in ${folder}`);
      this.#fd = openSync(this.path, constants.O_RDONLY | constants.O_NONBLOCK);
    } catch (e) {
      rmSync(folder, { recursive: true });
      throw e;
    }
    this.folder = folder;
  }

  /** Reads all that it has said. Whether it has ended. */
  readAll() {
    const buffer = Buffer.allocUnsafe(4096);
    try {
      for (;;) {
        const n = readSync(this.#fd, buffer);
        if (n === 0) return true;
        this.#text = (this.#text + buffer.toString('utf8', 0, n)).slice(-4096);
      }
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      return false;
    }
  }

  /** Why it could not serve, or ''. */
  get errors() {
    return this.#text.split('\n').filter((line) => line.startsWith('tslabd: err: ')).map((line) => line.slice(13)).join('; ');
  }

  close() {
    closeSync(this.#fd);
  }
}

/** Nobody's child: pm2 ends all children of a process that it ends, and a thread that has ended reaps none. */
function launch({ program, args, options }) {
  const words = new Words();
  // The shell itself opens the pipe, so that it is open on return.
  spawnSync('sh', ['-c', 'exec 2>"$0"; setsid "$@" &', words.path, program, ...args], { ...options, stdio: 'ignore' });
  rmSync(words.folder, { recursive: true });
  return words;
}

function makeFailure(name, { program, args }, words, cause) {
  const said = words.errors || 'it ended and said nothing';
  return new Error(`${program} cannot serve the pool ${name || '"default"'}: ${said}. By hand: ${program} ${args.join(' ')}`, { cause });
}

/**
 * Opens a pool by `open`, and starts its daemon where there is none. Several processes may do so at once: of their daemons
 * one serves, and the others end. Waits for it, for up to so many seconds, or until the own daemon has failed.
 */
function openStarted(open, name, start, timeout) {
  const daemon = described(name, start === true ? {} : start);
  const end = performance.now() + timeout * 1000;
  const pause = new Int32Array(new SharedArrayBuffer(4));
  let words, begun = 0, silent = 0;
  try {
    for (;;) {
      const hasEnded = words?.readAll();      // before the look, so that a daemon that served is seen
      try {
        return open();
      } catch (error) {
        if (!ABSENT.has(error.code)) throw error;
        const now = performance.now();
        if (now > end) throw words ? makeFailure(name, daemon, words, error) : error;
        if (hasEnded && words.errors && !words.errors.includes(OTHER)) throw makeFailure(name, daemon, words, error);
        if (words === undefined) check(daemon);
        // Another process's daemon may have been the one that serves, and have ended since.
        if (words === undefined || (hasEnded && now > begun + AGAIN_MS)) {
          if (words && !words.errors && ++silent === SILENT_MAX) throw makeFailure(name, daemon, words, error);
          words?.close();
          words = launch(daemon);
          begun = now;
        }
        Atomics.wait(pause, 0, 0, LOOK_MS);
      }
    }
  } finally {
    words?.close();     // the daemon has no use for it any more, and goes on without
  }
}

module.exports = { openStarted };

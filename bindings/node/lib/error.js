'use strict';
// Errors of the library, as those of Node's own modules: with `code` and `errno`.

const { getSystemErrorName } = require('node:util');

const REMEDIES = {
  ENOSPC: 'the map is full: raise its limit, or let it evict',
  ENOMEM: 'no memory is left, in the pool (see "tslabctl status") or in the system',
  EMFILE: 'this process has no descriptor left: ulimit -n',
  ENFILE: 'the system has no descriptor left',
  E2BIG: 'the key or the value is too large',
  EMSGSIZE: 'the buffer is smaller than the value',
  ESHUTDOWN: 'the current epoch is closed to new entries',
  ENOTCONN: 'no daemon answers: is tslabd running?',
  ENOENT: 'there is no such map, or no daemon: is tslabd running?',
  ECONNREFUSED: 'no daemon answers: is tslabd running?',
  EACCES: 'this user may not use the pool',
  EPERM: 'the daemon refuses that to this process',
  EROFS: 'the pool was opened to be read only',
  EUSERS: 'the pool has no room for another thread or process',
  EDQUOT: 'this user has nearly all places for threads and processes',
  EBADF: 'the pool is closed',
  EIDRM: 'the map is no more, or the pool is closed',
  EUCLEAN: 'a stray write has damaged the entry, or the daemon has another arena',
  EAGAIN: 'somebody else changed it meanwhile',
  EINVAL: 'an argument is out of range',
  EOVERFLOW: 'the sum has more than 64 bits; the counter is as it was',
  ERANGE: 'a number is no integer of 64 bits',
};

/** A call of libtslab failed; `code` is the error that <tslab.h> lists for it. */
class TslabError extends Error {
  constructor(call, errno) {
    let code;
    try {
      code = getSystemErrorName(-errno);
    } catch {
      code = `E${errno}`;
    }
    code = code.startsWith('Unknown') ? OTHERS[errno] ?? `E${errno}` : code;
    super(`tslab_${call}: ${code}: ${REMEDIES[code] ?? 'tslab(3) has the meaning'}`);
    this.code = code;
    this.errno = -errno;
    this.syscall = `tslab_${call}`;
  }
}
TslabError.prototype.name = 'TslabError';

// libuv has no names for these.
const OTHERS = { 43: 'EIDRM', 66: 'EREMOTE', 74: 'EBADMSG', 75: 'EOVERFLOW', 87: 'EUSERS', 105: 'ENOBUFS', 116: 'ESTALE', 117: 'EUCLEAN', 122: 'EDQUOT' };

/** A lock is no longer its owner's: its time was over, or somebody cleared the map. */
class LockLostError extends TslabError {
  constructor(key) {
    super('map_claim_extend', 11);
    this.message = `the lock ${JSON.stringify(key)} was lost: its time was over, or the map was cleared`;
  }
}
LockLostError.prototype.name = 'LockLostError';

const said = new Map();

/** A warning of the process, at most one in a minute about one thing. */
function warn(about, message) {
  const now = performance.now();
  if (now < (said.get(about) ?? 0)) return;
  said.set(about, now + 60000);
  process.emitWarning(message, 'TslabWarning');
}

module.exports = { TslabError, LockLostError, makeError: (call, errno) => new TslabError(call, errno), warn };

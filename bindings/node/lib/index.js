'use strict';

const { addon } = require('./native.js');
const { TslabError, LockLostError } = require('./error.js');
const { Pool, open, create } = require('./pool.js');
const { TslabMap } = require('./map.js');
const { Lock } = require('./lock.js');
const { Cache } = require('./cache.js');
const { Counter, Limiter } = require('./limiter.js');
const { ValueError, decode, encode } = require('./value.js');

module.exports = {
  version: addon.version(),
  open,
  create,
  Pool,
  Map: TslabMap,
  Cache,
  Counter,
  Limiter,
  Lock,
  TslabError,
  LockLostError,
  ValueError,
  encode,
  decode,
};

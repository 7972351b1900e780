'use strict';
// The addon, and the memory that it shares with this thread.

const { existsSync } = require('node:fs');
const path = require('node:path');
const { makeError } = require('./error.js');

// Where npm, a package with prebuilt files, and a build folder of meson have it.
const PLACES = ['../build/Release/tslab.node', `../prebuilds/linux-${process.arch}/tslab.node`, '../tslab.node'];

function load() {
  const found = PLACES.map((place) => path.join(__dirname, place)).find(existsSync);
  if (found === undefined)
    throw new Error(`the addon of tslab is not built for ${process.platform} ${process.arch}: run "npm rebuild tslab"`);
  return require(found);
}

const addon = load();
addon.setup(makeError);

const scratch = Buffer.from(addon.scratch);
const versions = new BigUint64Array(addon.info, 0, 1);
const doubles = new Float64Array(addon.info, 8, 2);
const words = new Uint32Array(addon.info, 24, 3);
const sizes = new Int32Array(addon.info, 36, 1);

/** What the last call found out about an entry: struct Info of addon.h. */
const info = {
  get version() { return versions[0]; },
  get ttlLeftMs() { return doubles[0]; },
  get valueSize() { return doubles[1]; },
  get flags() { return words[0]; },
  get kind() { return words[1]; },
  get keySize() { return words[2]; },
  get size() { return sizes[0]; },
};

module.exports = {
  addon,
  info,
  scratch,
  slabAt: new Uint32Array(addon.info, 40, 2),
  // tslab_map.h
  ABSENT: -1,
  TOO_LARGE: -2,
  COUNTER: 1,
  TAGGED: 16,
  STALE: 2,
  KEY_ONLY: 4,
  PUT: 0,
  INSERT: 1,
  UPDATE: 2,
  REPLACE: 3,
  // addon.h
  TEXT: 1,
  JSON: 2,
};

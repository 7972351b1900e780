'use strict';
// The calls of node.js by lmdb-js, of npm. Usage: node node-lmdb.js FOLDER SECONDS NODE_MODULES/lmdb

const [folder, seconds, module_] = process.argv.slice(2);
const { open } = require(module_);
const { KEYS, tell } = require('./measure.js');

const db = open({ path: `${folder}/lmdb`, encoding: 'binary', keyEncoding: 'binary', noSync: true });
const value = Buffer.alloc(256, 'x');
const bytes = KEYS.map((key) => Buffer.from(key));
for (const key of bytes) db.putSync(key, value);

tell('Node: lmdb-js', seconds, {
  'get as bytes': (i) => db.get(bytes[i]),
  put: (i) => db.putSync(bytes[i], value),
});
db.close();

'use strict';
// Calls on a map by the Node package. Usage: node node.js SOCKET SECONDS PACKAGE; prints one JSON object.

const [socket, seconds, folder] = process.argv.slice(2);
const tslab = require(folder);
const { KEYS, tell } = require('./measure.js');

const pool = tslab.open(socket);
const map = pool.map('node');
const cache = new tslab.Cache(pool, { name: 'node-cache' });
const value = Buffer.alloc(256, 'x');
const text = value.toString();
const room = Buffer.alloc(1024);
const bytes = KEYS.map((key) => Buffer.from(key));
const object = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`name ${i}`, `value ${i}`]));
for (const key of KEYS) {
  map.put(key, value);
  cache.set(key, text);
}
cache.set('object', object);

tell('Node', seconds, {
  'get into a buffer': (i) => map.getInto(bytes[i], room),
  'get into a buffer, key is text': (i) => map.getInto(KEYS[i], room),
  'get as text': (i) => map.getString(bytes[i]),
  'get as bytes': (i) => map.get(bytes[i]),
  put: (i) => map.put(bytes[i], value),
  add: () => map.add('counter'),
  'get of a cache': (i) => cache.get(KEYS[i]),
  'get of a cache, an object': () => cache.get('object'),
});
pool.close();

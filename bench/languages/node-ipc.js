'use strict';
// The get of node.js by messages of cluster: a worker asks its primary, which has the values. Usage: node node-ipc.js SECONDS

const cluster = require('node:cluster');
const { KEYS } = require('./measure.js');

if (cluster.isPrimary) {
  const values = new Map(KEYS.map((key) => [key, 'x'.repeat(256)]));
  const worker = cluster.fork();
  worker.on('message', ({ key, result }) => {
    if (key !== undefined) worker.send(values.get(key));
    else console.log(JSON.stringify({ name: 'Node: cluster IPC', version: process.version, ns: { 'get as text': result } }));
  });
} else {
  const ask = (key) => new Promise((resolve) => process.once('message', resolve).send({ key }));
  const measure = async () => {
    const times = [];
    const end = performance.now() + Number(process.argv[2]) * 1000;
    for (let i = 0; performance.now() < end || i < 100; i++) {
      const begin = process.hrtime.bigint();
      await ask(KEYS[i % KEYS.length]);
      times.push(Number(process.hrtime.bigint() - begin));
    }
    times.sort((a, b) => a - b);
    process.send({ result: times[times.length >> 1] }, () => process.disconnect());
  };
  measure();
}

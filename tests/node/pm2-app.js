'use strict';
// A worker of pm2's cluster: it counts its requests in the pool, whose daemon the first of the workers starts.

const http = require('node:http');
const tslab = require(process.env.TSLAB_TEST_PACKAGE);

const pool = tslab.open(process.env.PM2_TEST_SOCKET, { start: { program: process.env.TSLAB_TEST_DAEMON, size: '16M', idle: 5 } });
const map = pool.map('app');
const server = http.createServer((request, answer) => answer.end(`${map.add('requests')} ${process.pid}`));

server.listen(0, '127.0.0.1', () => map.put('port', String(server.address().port)));
// pm2 reloads so: the worker ends once its requests have ended.
process.on('SIGINT', () => server.close(() => process.exit(0)));

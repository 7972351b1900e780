'use strict';
// An application of express under cluster, of which KILLS workers are killed, one after the other.
// Usage: node sessions-app.js FOLDER SOCKET KILLS; it ends with its standard input.

const cluster = require('node:cluster');
const { createRequire } = require('node:module');
const path = require('node:path');

const [folder, socket, kills] = process.argv.slice(2);
const WORKERS = 4;

function serve() {
  const require_ = createRequire(path.join(folder, 'index.js'));
  const tslab = require(process.env.TSLAB_TEST_PACKAGE);
  const session = require_('express-session');
  const Store = require(path.join(process.env.TSLAB_TEST_PACKAGE, 'stores/express-session.js'))(session);
  const app = require_('express')();
  app.use(session({ store: new Store(tslab.open(socket)), secret: 'a', resave: false, saveUninitialized: false }));
  app.get('/', (request, response) => {
    request.session.visits = (request.session.visits ?? 0) + 1;
    response.send(String(request.session.visits));
  });
  app.listen(Number(process.env.PORT ?? 0), '127.0.0.1');
}

function lead() {
  let killed = 0;
  const begin = () => {
    const worker = cluster.fork();
    worker.on('listening', ({ port }) => {
      if (process.env.PORT === undefined) {
        process.env.PORT = String(port);
        console.log(`port ${port}`);
        for (let i = 1; i < WORKERS; i++) begin();
      }
      setTimeout(() => {
        if (killed >= Number(kills)) return console.log('killed all');
        killed++;
        return worker.process.kill('SIGKILL');
      }, 100 + Math.random() * 100);
    });
    worker.on('exit', () => process.stdin.readable && begin());
  };
  process.stdin.resume().on('end', () => {
    for (const worker of Object.values(cluster.workers)) worker.process.kill('SIGKILL');
    process.exit(0);
  });
  begin();
}

if (cluster.isPrimary) lead();
else serve();

'use strict';
// Jobs that the tests give to child processes: node jobs.js NAME ARGUMENTS-AS-JSON

const path = require('node:path');
const tslab = require(process.env.TSLAB_TEST_PACKAGE);

const JOBS = {
  other(socket) {
    const map = tslab.open(socket).map('shared');
    process.stdout.write(map.getString('from the parent'));
    map.put('from the child', Buffer.from([1, 2, 255]));
  },

  /** Starts the daemon, or finds that of another, and stays. */
  started(socket, start) {
    process.stdout.write(`${tslab.open(socket, { start }).map('shared').add('n')}\n`);
    setInterval(() => {}, 1e6);
  },

  /** Claims a key, and stays. */
  hold(socket, key) {
    process.stdout.write(tslab.open(socket).map('claims').claim(key).isMine ? 'held' : 'not held');
    setInterval(() => {}, 1e6);
  },

  computeForever(socket, key) {
    new tslab.Cache(tslab.open(socket)).getOrCompute(key, () => new Promise((resolve) => setTimeout(resolve, 1e9)));
  },

  async compute(socket, key) {
    const cache = new tslab.Cache(tslab.open(socket));
    const make = () => {
      cache.incr('computed');
      return 'value';
    };
    if ((await cache.getOrCompute(key, make)) !== 'value') process.exit(1);
  },

  /** Revalidates tags of its own, with room for few records: no page from before is found again. */
  async revalidate(socket, max, n) {
    const { FRESH, OVER, Tags } = require(path.join(process.env.TSLAB_TEST_PACKAGE, 'stores/next-tags.js'));
    const tags = new Tags(tslab.open(socket), max);
    const begun = [];
    for (let i = 0; i < n; i++) {
      begun.push(tags.now());
      await tags.update([`${process.pid} ${i}`]);
      const other = Math.floor(Math.random() * begun.length);
      // If several processes drop records at once, the count may have to follow, and a page is over that was begun before.
      for (let tries = 0; tags.look(tags.now(), [`${process.pid} ${i}`]) !== FRESH; )
        if (++tries === 10) throw new Error(`page ${i} is over`);
      if (tags.look(begun[other], [`${process.pid} ${other}`]) !== OVER) throw new Error(`page ${other} is found again`);
    }
    process.exit(0);
  },

  /** Changes entries in every way until it is killed; a counter tells how often, and so does each line. */
  storm(socket, name) {
    const map = tslab.open(socket).map('storm');
    const test = process.ppid; // which may be killed, too
    process.stdout.write('ready\n');
    for (let i = 1; i % 100 !== 0 || process.ppid === test; i++) {
      const key = `key ${i % 20}`;
      map.put(key, String(i % 10).repeat((i % 7) * 700 + 1));
      const value = map.getString(key);
      if (value !== undefined && value !== value[0].repeat(value.length)) map.add('wrong');
      map.add('n');
      map.put(name, String(i));
      if (i % 5 === 0) map.pop(key);
      const lock = map.lock('lock');
      if (lock.tryAcquire()) {
        map.add('held');
        lock.release();
      }
    }
  },
};

JOBS[process.argv[2]](...JSON.parse(process.argv[3]));

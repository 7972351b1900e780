'use strict';
// Memory for values that get() returns. Small ones share it, as those of Buffer.allocUnsafe() do: each is a Buffer of its
// own part. Copies of this module may share the addon, as in Jest, which loads lib/ anew for each file of tests: each binds its
// own slab before it uses that.

const { markAsUntransferable } = require('node:worker_threads');
const { addon, slabAt } = require('./native.js');

const SIZE = 32 << 10;
const LAST = SIZE - 4096; // of which a value has up to 4096

// The class of Buffers, which can be made of a part of an ArrayBuffer in a third of the time of Buffer.from().
const Part = Buffer[Symbol.species] ?? Buffer;
const part = Part.prototype === Buffer.prototype && Part !== Buffer
  ? (memory, at, size) => new Part(memory, at, size)
  : (memory, at, size) => Buffer.from(memory, at, size);

const self = addon.slabOwners = (addon.slabOwners ?? 0) + 1;
let slab = new Uint8Array(0);
let memory = slab.buffer;
let at = 0;

/** Sees to room for a value: before each call of getSlab(). Where a slab has lost its memory, it has another length. */
function makeRoom() {
  const isWhole = at <= LAST && slab.length === SIZE;
  if (isWhole && slabAt[1] === self) return;
  if (!isWhole) {
    slab = Buffer.allocUnsafeSlow(SIZE);
    memory = slab.buffer;
    markAsUntransferable(memory);
    at = 0;
  }
  addon.bindSlab(slab);
  slabAt[0] = at;
  slabAt[1] = self;
}

/** The value that the call has put there. */
function take(size) {
  const value = part(memory, at, size);
  at += (size + 7) & ~7;
  slabAt[0] = at;
  return value;
}

module.exports = { makeRoom, take };

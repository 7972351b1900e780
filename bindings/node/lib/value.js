'use strict';
// Values as bytes, in the format that all languages share: bindings/php/README.md has it.
//
// A string is its bytes, and a counter is 8 bytes. All else is one item of CBOR (RFC 8949) behind the tag for
// "self-described CBOR", and so is a string that begins with this tag. Arrays and objects are JSON behind a tag of their
// own, or, where a cache says so, what Node's structured clone makes of them.

const v8 = require('node:v8');
const { isUtf8 } = require('node:buffer');

const MAGIC = Buffer.from([0xd9, 0xd9, 0xf7]);
const TAG_JSON = 262n; // registered: embedded JSON
const TAG_NODE = 0x54534c04n; // our own: v8.serialize()
const [UNSIGNED, NEGATIVE, BYTES, TEXT, ARRAY, MAP, TAG, SIMPLE] = [0, 1, 2, 3, 4, 5, 6, 7]; // major types of CBOR

/** Bytes that are no value, or of a kind that this version does not know. */
class ValueError extends Error {}
ValueError.prototype.name = 'ValueError';

// Writing

function head(major, number) {
  const n = BigInt(number);
  const size = n < 24n ? 0 : n < 1n << 8n ? 1 : n < 1n << 16n ? 2 : n < 1n << 32n ? 4 : 8;
  const bytes = Buffer.alloc(1 + size);
  bytes[0] = (major << 5) | (size === 0 ? Number(n) : 24 + Math.log2(size));
  for (let i = 0; i < size; i++) bytes[1 + i] = Number((n >> BigInt(8 * (size - 1 - i))) & 255n);
  return bytes;
}

function item(major, bytes) {
  return [head(major, bytes.length), bytes];
}

function integer(number) {
  const n = BigInt(number);
  if (n >= 1n << 64n || n < -(1n << 64n)) throw new RangeError(`${number} has more than 64 bits`);
  return [n >= 0n ? head(UNSIGNED, n) : head(NEGATIVE, -1n - n)];
}

function float(number) {
  const bytes = Buffer.alloc(9);
  bytes[0] = (SIMPLE << 5) | 27;
  bytes.writeDoubleBE(number, 1);
  return [bytes];
}

function structure(value, serializer) {
  if (serializer === 'v8') return [head(TAG, TAG_NODE), ...item(BYTES, v8.serialize(value))];
  const json = JSON.stringify(value);
  if (json === undefined) throw new TypeError(`a ${typeof value} is no value`);
  return [head(TAG, TAG_JSON), ...item(TEXT, Buffer.from(json))];
}

function described(value, serializer) {
  switch (typeof value) {
    case 'string':
      return item(TEXT, Buffer.from(value));
    case 'number':
      return Number.isSafeInteger(value) && !Object.is(value, -0) ? integer(value) : float(value);
    case 'bigint':
      return integer(value);
    case 'boolean':
      return [head(SIMPLE, value ? 21 : 20)];
    case 'undefined':
    case 'function':
    case 'symbol':
      throw new TypeError(`${typeof value} is no value`);
    default:
      if (value === null) return [head(SIMPLE, 22)];
      if (value instanceof Uint8Array) return item(BYTES, value);
      return structure(value, serializer);
  }
}

/** The bytes of a value, or a string of which they are the UTF-8. */
function encode(value, serializer = 'json') {
  // No text as UTF-8 begins with the bytes of the tag.
  if (typeof value === 'string') return value;
  return Buffer.concat([MAGIC, ...described(value, serializer)]);
}

// Reading

class Reader {
  constructor(data, at) {
    this.data = data;
    this.at = at;
  }

  take(n) {
    if (n > this.data.length - this.at) throw new ValueError('it ends too early');
    this.at += n;
    return this.data.subarray(this.at - n, this.at);
  }

  /** The major type, the low bits, and the number: -1n for a length that is not told. */
  head() {
    const first = this.take(1)[0];
    const low = first & 31;
    if (low < 24) return [first >> 5, low, BigInt(low)];
    if (low === 31) return [first >> 5, low, -1n];
    if (low > 27) throw new ValueError('a head is none of CBOR');
    return [first >> 5, low, this.take(1 << (low - 24)).reduce((n, byte) => (n << 8n) | BigInt(byte), 0n)];
  }

  get isAtBreak() {
    if (this.data[this.at] !== 0xff) return false;
    this.at++;
    return true;
  }

  bytes(major, size) {
    if (size >= 0n) return this.take(Number(size));
    const parts = [];
    while (!this.isAtBreak) {
      const [kind, , length] = this.head();
      if (kind !== major || length < 0n) throw new ValueError('a part of a string is none');
      parts.push(this.take(Number(length)));
    }
    return Buffer.concat(parts);
  }

  array(size, depth) {
    const values = [];
    while (size < 0n ? !this.isAtBreak : values.length < size) values.push(this.item(depth));
    return values;
  }

  map(size, depth) {
    const pairs = [];
    while (size < 0n ? !this.isAtBreak : pairs.length < size) pairs.push([this.item(depth), this.item(depth)]);
    if (!pairs.every(([key]) => typeof key === 'string')) return new Map(pairs);
    return Object.fromEntries(pairs);
  }

  tagged(tag, depth) {
    const value = this.item(depth);
    if (tag === TAG_JSON) return JSON.parse(value.toString());
    if (tag === TAG_NODE) return v8.deserialize(value);
    if (tag >> 8n === 0x54534cn) throw new ValueError('it is serialized by another language');
    return value;
  }

  simple(low, number) {
    switch (low) {
      case 20:
      case 21:
        return low === 21;
      case 22:
        return null;
      case 23:
        return undefined;
      case 25:
        return half(Number(number));
      case 26:
        return new DataView(new Uint32Array([Number(number)]).buffer).getFloat32(0, true);
      case 27:
        return new DataView(new BigUint64Array([number]).buffer).getFloat64(0, true);
      default:
        throw new ValueError('a simple value is unknown');
    }
  }

  item(depth = 0) {
    if (depth > 100) throw new ValueError('it is nested too deep');
    const [major, low, number] = this.head();
    switch (major) {
      case UNSIGNED:
        return exact(number);
      case NEGATIVE:
        return exact(-1n - number);
      case BYTES:
        return Buffer.from(this.bytes(major, number));
      case TEXT:
        return this.bytes(major, number).toString();
      case ARRAY:
        return this.array(number, depth + 1);
      case MAP:
        return this.map(number, depth + 1);
      case TAG:
        return this.tagged(number, depth + 1);
      default:
        return this.simple(low, number);
    }
  }
}

function exact(number) {
  return number >= Number.MIN_SAFE_INTEGER && number <= Number.MAX_SAFE_INTEGER ? Number(number) : number;
}

function half(bits) {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const sign = bits >> 15 ? -1 : 1;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** A value of the bytes of an entry that is no counter: a string, or a Buffer where they are no UTF-8. */
function decode(data) {
  if (!data.subarray(0, 3).equals(MAGIC)) return isUtf8(data) ? data.toString() : Buffer.from(data);
  const reader = new Reader(data, MAGIC.length);
  const value = reader.item();
  if (reader.at !== data.length) throw new ValueError('there is more behind it');
  return value;
}

/** The number of a counter's bytes. */
function counted(data) {
  return exact(data.readBigInt64LE());
}

module.exports = { ValueError, encode, decode, counted };

"""The actor of the Python package: see README.md.

    actor.py SOCKET
"""

import errno
import json
import math
import os
import sys

import tslab

LACKS = []


def seconds(ms):
    return None if ms is None else ms / 1000


def version(found):
    return {'version': str(found)}


def expect(done, number):
    if not done:
        raise OSError(number, '')


class Actor:
    def __init__(self, socket):
        self.socket, self.pool, self.maps = socket, tslab.open(socket), {}

    def map(self, r):
        if self.pool.closed:
            self.pool = tslab.open(self.socket)
        self.maps[r['map']] = tslab.Map(self.pool, r['name'], ttl=seconds(r.get('ttl_ms')),
                                        limit_bytes=r.get('limit_bytes', 0), value_max=r.get('value_max', 0),
                                        stale=r.get('stale_ms', 0) / 1000, evict=r.get('evict'))

    def close(self, _):
        self.pool.close()

    def close_map(self, r):
        self.maps[r['map']].close()

    def get(self, r):
        value = self.maps[r['map']].get(r['key'])
        expect(value is not None, errno.ENOENT)
        return value.hex()

    def info(self, r):
        found = self.maps[r['map']]._find(r['key'], tslab.map.lib.TSLAB_MAP_STALE if r.get('stale') else 0)
        expect(found, errno.ENOENT)
        value, entry = found
        left = tslab.map.ttl_left(entry)
        return {'value': value.hex(), 'version': str(entry.version), 'stale': tslab.map.is_stale(entry),
                'counter': bool(entry.flags & tslab.map.lib.TSLAB_MAP_COUNTER),
                'ttl_left_ms': None if left == math.inf else left * 1000}

    def put(self, r):
        self.maps[r['map']].put(r['key'], r['value'], ttl=seconds(r.get('ttl_ms')))

    def insert(self, r):
        expect(self.maps[r['map']].insert(r['key'], r['value'], ttl=seconds(r.get('ttl_ms'))), errno.EEXIST)

    def update(self, r):
        expect(self.maps[r['map']].change(r['key'], r['value'], ttl=seconds(r.get('ttl_ms'))), errno.ENOENT)

    def replace(self, r):
        self.maps[r['map']].replace(r['key'], int(r['version']), r['value'])

    def touch(self, r):
        expect(self.maps[r['map']].touch(r['key'], seconds(r['ttl_ms'])), errno.ENOENT)

    def delete(self, r):
        expect(self.maps[r['map']].delete(r['key'], *([int(r['version'])] if 'version' in r else [])), errno.ENOENT)

    def take(self, r):
        try:
            return self.maps[r['map']].pop(r['key']).hex()
        except KeyError:
            raise OSError(errno.ENOENT, '') from None

    def add(self, r):
        return str(self.maps[r['map']].add(r['key'], int(r['delta']), int(r.get('initial', 0)), seconds(r.get('ttl_ms'))))

    def set_counter(self, r):
        self.maps[r['map']].set_counter(r['key'], int(r['number']), seconds(r.get('ttl_ms')))

    def limit(self, r):
        wait = self.maps[r['map']].limit(r['key'], r['per_second'], r['burst'], r['cost'])
        return 0 if wait is None else wait * 1000

    def claim(self, r):
        claim = self.maps[r['map']].claim(r['key'], **({'ttl': r['limit_ms'] / 1000} if 'limit_ms' in r else {}))
        expect(claim, errno.EEXIST)
        return version(claim.version) if claim.mine else {'error': 'EBUSY', **version(claim.version)}

    def extend(self, r):
        return version(self.maps[r['map']].extend(r['key'], int(r['version']), r['limit_ms'] / 1000))

    def wait(self, r):
        expect(self.maps[r['map']].wait(r['key'], int(r['version']), r['timeout_ms'] / 1000), errno.ETIMEDOUT)

    def get_many(self, r):
        m = self.maps[r['map']]
        values = [m.get(bytes.fromhex(k)) for k in r['keys']]
        return [None if v is None else v.hex() for v in values]

    def put_many(self, r):
        for key, value in zip(r['keys'], r['values']):
            self.maps[r['map']].put(bytes.fromhex(key), bytes.fromhex(value), ttl=seconds(r.get('ttl_ms')))

    def walk(self, r):
        return [[key.hex(), value.hex()] for key, value in self.maps[r['map']].items()]

    def count(self, r):
        return len(self.maps[r['map']])

    def answer(self, r):
        for name in 'key', 'value':
            if name in r:
                r[name] = bytes.fromhex(r[name])
        try:
            reply = getattr(self, r['call'])(r)
        except OSError as e:
            return {'error': errno.errorcode[e.errno]}
        except ValueError:
            return {'error': 'EINVAL'}
        return reply if isinstance(reply, dict) and 'error' in reply else {'ok': reply}


def main():
    actor = Actor(sys.argv[1])
    print(json.dumps({'binding': 'python', 'lacks': LACKS}), flush=True)
    for line in sys.stdin:
        print(json.dumps(actor.answer(json.loads(line))), flush=True)
    os._exit(0)


if __name__ == '__main__':
    main()

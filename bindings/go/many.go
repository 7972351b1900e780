package tslab

// #include "shim.h"
import "C"

import (
	"runtime"
	"sync"
	"syscall"
)

const (
	batchMax  = C.SHIM_BATCH
	batchRoom = 1024 + 64 // for a value; larger ones are fetched alone. No power of two: rooms are in many cache sets
	batchKeep = batchMax * batchRoom
)

// Batch gets values of many keys, up to 64 by each crossing to C, into memory of its own, which the next call uses anew.
// Its zero value is ready; one goroutine uses it at a time. It has about a kilobyte a key of its largest call, which it gives
// back when 1000 calls in a row needed less than a quarter of that; a batch that is set to Batch{} has none.
type Batch struct {
	bytes   []byte // what crosses to C has no pointers: keys, one behind the other
	sizes   [2 * batchMax]C.uint32_t
	results [batchMax]C.int64_t
	rooms   []byte
	values  [][]byte
	small   int // calls in a row that needed less than a quarter of the rooms
}

const smallMax = 1000

// fit sees to rooms and values for so many keys.
func (b *Batch) fit(n int) {
	size := n * batchRoom
	if b.small++; size >= len(b.rooms)/4 {
		b.small = 0
	}
	if len(b.rooms) < size || b.small == smallMax {
		b.rooms, b.values, b.bytes, b.small = make([]byte, size), make([][]byte, n), nil, 0
	}
}

var batches = sync.Pool{New: func() any { return new(Batch) }}

// Get returns the values of keys, nil for those that are absent. They are not those of one moment, and stay until the next
// call.
func (b *Batch) Get(m *Map, keys [][]byte) ([][]byte, error) {
	if m.isClosed() {
		return nil, ErrClosed
	}
	b.fit(len(keys))
	b.bytes = b.bytes[:0] // keys may be parts of the last values, which the next ones overwrite
	for _, key := range keys {
		b.bytes = append(b.bytes, key...)
	}
	rest, values := b.bytes, b.values[:len(keys)]
	for i := 0; i < len(keys); i += batchMax {
		end := min(i+batchMax, len(keys))
		size := b.measure(keys[i:end])
		if err := b.get(m, rest[:size], b.rooms[i*batchRoom:], values[i:end]); err != nil {
			return nil, err
		}
		rest = rest[size:]
	}
	return values, nil
}

// measure notes the sizes of keys, and returns their sum.
func (b *Batch) measure(keys [][]byte) int {
	sum := 0
	for i, key := range keys {
		b.sizes[i] = C.uint32_t(len(key))
		sum += len(key)
	}
	return sum
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}

// get gets the values of keys, one behind the other, whose sizes are noted.
func (b *Batch) get(m *Map, keys, rooms []byte, values [][]byte) error {
	all, _ := bytesOf(keys)
	room, _ := bytesOf(rooms)
	sizes, results := &b.sizes[0], &b.results[0]
	r := int64(C.shim_get_many(m.number(), all, sizes, C.size_t(len(values)), room, batchRoom, results))
	runtime.KeepAlive(m)
	if r < 0 {
		return m.fail(r)
	}
	for i := range values {
		key := keys[:b.sizes[i]]
		keys = keys[len(key):]
		switch n := int64(b.results[i]); {
		case n >= 0:
			at := i * batchRoom
			values[i] = rooms[at : at+int(n) : at+int(n)]
		case n == -int64(syscall.ENOENT):
			values[i] = nil
		case n == -int64(syscall.EMSGSIZE):
			value, err := m.Get(key)
			if err != nil && err != ErrNotFound {
				return err
			}
			values[i] = value
		default:
			return m.fail(n)
		}
	}
	return nil
}

// GetMany is Batch.Get with values that stay: they share pieces of memory, so copy one that you keep for long.
func (m *Map) GetMany(keys [][]byte) ([][]byte, error) {
	values := make([][]byte, len(keys))
	b := batches.Get().(*Batch)
	defer batches.Put(b)
	for i := 0; i < len(keys); i += batchMax {
		end := min(i+batchMax, len(keys))
		got, err := b.Get(m, keys[i:end])
		if err != nil {
			return nil, err
		}
		copyAll(values[i:end], got)
	}
	return values, nil
}

// copyAll copies values into one piece of memory. Those that are absent stay so.
func copyAll(to, from [][]byte) {
	sum := 0
	for _, value := range from {
		sum += len(value)
	}
	shared := make([]byte, 0, sum)
	for i, value := range from {
		if value != nil {
			at := len(shared)
			shared = append(shared, value...)
			to[i] = shared[at:len(shared):len(shared)]
		}
	}
}

// PutMany sets the values of keys, each as PutWith does. It returns the first error, and goes on to the other keys.
func (m *Map) PutMany(keys, values [][]byte, how PutOptions) error {
	if m.isClosed() {
		return ErrClosed
	}
	if len(keys) != len(values) {
		return &Error{syscall.EINVAL, "PutMany: as many values as keys"}
	}
	ttl, err := ttlOf(how.TTL)
	if err == nil {
		how, err = m.tagged(how)
	}
	if err != nil {
		return err
	}
	b := batches.Get().(*Batch)
	defer batches.Put(b)
	for i := 0; i < len(keys); i += batchMax {
		end := min(i+batchMax, len(keys))
		if e := b.put(m, keys[i:end], values[i:end], how, ttl); err == nil {
			err = e
		}
	}
	return err
}

func (b *Batch) put(m *Map, keys, values [][]byte, how PutOptions, ttl C.uint64_t) error {
	b.bytes = b.bytes[:0]
	for i, key := range keys {
		b.bytes = append(append(b.bytes, key...), values[i]...)
		b.sizes[2*i], b.sizes[2*i+1] = C.uint32_t(len(key)), C.uint32_t(len(values[i]))
	}
	all, _ := bytesOf(b.bytes)
	tags, count := tagsOf(how.Tags)
	sizes, results := &b.sizes[0], &b.results[0]
	r := int64(C.shim_put_many(m.number(), all, sizes, C.size_t(len(keys)), C.TSLAB_MAP_PUT, how.Epoch.native(), ttl, tags,
		count, results))
	runtime.KeepAlive(m)
	if cap(b.bytes) > batchKeep {
		b.bytes = nil // the pool of batches is not for large values
	}
	if r < 0 {
		return m.fail(r)
	}
	for _, n := range b.results[:len(keys)] {
		if n < 0 {
			return m.fail(int64(n))
		}
	}
	return nil
}

// Stats are counts of a map since it was made.
type Stats struct {
	Entries, Bytes, Hits, Misses, Inserts, Deletes, Expirations, Evictions, Failures uint64
}

// Stats returns the counts, without a walk over the entries.
func (m *Map) Stats() (s Stats, err error) {
	if m.isClosed() {
		return s, ErrClosed
	}
	var n C.struct_tslab_map_statistics
	n.size = C.sizeof_struct_tslab_map_statistics
	if err := m.result(C.tslab_map_statistics(m.native, &n)); err != nil {
		return s, err
	}
	return Stats{uint64(n.entries), uint64(n.bytes), uint64(n.hits), uint64(n.misses), uint64(n.inserts),
		uint64(n.deletes), uint64(n.expirations), uint64(n.evictions), uint64(n.failures)}, nil
}

package tslab

// #include "shim.h"
import "C"

import (
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
)

const roomSize = 4096

// A room takes a value whose size is not known yet.
type room struct {
	bytes [roomSize]byte
	gets  uint32 // how often Get used it
}

var rooms = sync.Pool{New: func() any { return new(room) }}

// copyOf returns a copy, which is not nil where there are no bytes.
func copyOf(b []byte) []byte { return append([]byte{}, b...) }

// Where a map's keys are present, and their values of one size, C copies into the memory that Get returns, and not into a
// room before that. A guess that fails costs that memory. So Get looks at one of sampleEvery values of each room, guesses
// when streakMin of them in a row had one size, and does not guess again before that after a key that is absent.
const (
	likelyMax   = 1024
	sampleEvery = 16
	streakMin   = 8
)

// Get returns a copy of a key's value, whole as it was at one moment. ErrNotFound: the key is absent.
func (m *Map) Get(key []byte) ([]byte, error) {
	if m.isClosed() {
		return nil, ErrClosed
	}
	k, n := bytesOf(key)
	if size := atomic.LoadUint32(&m.likely); size != 0 {
		value := make([]byte, size)
		to, room := bytesOf(value)
		r := int64(C.shim_get(m.number(), k, n, to, room))
		runtime.KeepAlive(m)
		if r == int64(size) {
			return value, nil
		}
		m.guess(0)
		if r >= 0 {
			return copyOf(value[:r]), nil
		}
		if r != -int64(syscall.EMSGSIZE) {
			return nil, m.fail(r)
		}
	}
	return m.getByRoom(key)
}

func (m *Map) getByRoom(key []byte) (value []byte, err error) {
	in := rooms.Get().(*room)
	k, n := bytesOf(key)
	to, room := bytesOf(in.bytes[:])
	r := int64(C.shim_get(m.number(), k, n, to, room))
	runtime.KeepAlive(m)
	if r >= 0 {
		value = copyOf(in.bytes[:r])
	}
	if in.gets++; in.gets%sampleEvery == 0 {
		m.guess(r)
	}
	rooms.Put(in)
	if r == -int64(syscall.EMSGSIZE) {
		entry, err := m.Entry(key, false)
		return entry.Value, err
	}
	if r < 0 {
		return nil, m.fail(r)
	}
	return value, nil
}

// guess takes the size of a value, or less than 1 where there was none, for the guess at the next one.
func (m *Map) guess(size int64) {
	if size > likelyMax || size < 1 {
		size = 0
	}
	if size == 0 || atomic.LoadUint32(&m.sample) != uint32(size) {
		atomic.StoreUint32(&m.likely, 0)
		atomic.StoreUint32(&m.streak, 0)
		atomic.StoreUint32(&m.sample, uint32(size))
	} else if atomic.AddUint32(&m.streak, 1) >= streakMin {
		atomic.StoreUint32(&m.likely, uint32(size))
	}
}

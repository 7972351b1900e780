// Package tslab is for memory that the processes of a host share: maps of bytes, caches, counters, limits, locks and
// sessions in a pool of a daemon, tslabd. A process that is killed loses nothing of it and delays nobody.
//
//	pool, err := tslab.Open("/run/tslab/web.sock")
//	m, err := pool.Map("NAME")
//	err = m.Put([]byte("alice"), []byte("127 requests"))
//	value, err := m.Get([]byte("alice")) // here, or in another process
//
// Any goroutine may make any call at any time. No call but those with a context waits for another process; these take no
// thread while they wait. Only Thread's methods belong to one goroutine.
package tslab

// #cgo pkg-config: tslab
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Pool is an open pool. It stays open until Close: locks and claims of the process end with it, so no finalizer closes it.
type Pool struct {
	native *C.struct_tslab
	socket string
	how    PoolOptions
	closed uint32

	mutex  sync.Mutex
	waiter *waiter
}

// PoolOptions are those of OpenWith.
type PoolOptions struct {
	Reader  bool          // map the memory read-only: all changes are ErrReadOnly
	Timeout time.Duration // for each answer of the daemon; 0: 5 s
	Comm    string        // shown for this process; "": its own name
}

// Open opens the pool of a daemon: the path of its socket, or its name; "" is $TSLAB_POOL, or "default".
func Open(socket string) (*Pool, error) {
	return OpenWith(socket, PoolOptions{})
}

// OpenWith opens a pool with options.
func OpenWith(socket string, how PoolOptions) (*Pool, error) {
	pool := &Pool{socket: socket, how: how}
	options := C.struct_tslab_options{}
	options.size = C.sizeof_struct_tslab_options
	if how.Reader {
		options.flags = C.TSLAB_READER
	}
	if how.Timeout < 0 || how.Timeout/time.Millisecond >= 1<<32-1 {
		return nil, &Error{syscall.EINVAL, "PoolOptions.Timeout is out of range"}
	}
	options.timeout_ms = C.uint32_t((how.Timeout + time.Millisecond - 1) / time.Millisecond)
	var name *C.char
	if socket != "" {
		name = C.CString(socket)
		defer C.free(unsafe.Pointer(name))
	}
	if how.Comm != "" {
		options.comm = C.CString(how.Comm)
		defer C.free(unsafe.Pointer(options.comm))
	}
	if r := C.tslab_open(&pool.native, name, &options); r < 0 {
		return nil, failure(int64(r), "pool "+nameOf(socket))
	}
	return pool, nil
}

func nameOf(socket string) string {
	if socket == "" {
		return "(default)"
	}
	return socket
}

// Close closes the pool in this process. Calls of other goroutines are over before, and later ones are ErrClosed. Its
// claims and locks become free.
func (p *Pool) Close() error {
	if !atomic.CompareAndSwapUint32(&p.closed, 0, 1) {
		return ErrClosed
	}
	p.mutex.Lock()
	w := p.waiter
	p.mutex.Unlock()
	if w != nil {
		w.close()
	}
	C.tslab_close(p.native)
	return nil
}

// Stale returns whether the daemon has another arena than the one that is open here: open the pool again. Caches and
// sessions do that by themselves.
func (p *Pool) Stale() bool {
	return !p.isClosed() && bool(C.tslab_stale(p.native))
}

// Reopen opens the pool once more, with the same options.
func (p *Pool) Reopen() (*Pool, error) {
	return OpenWith(p.socket, p.how)
}

// LibraryVersion returns the version of libtslab.
func LibraryVersion() string {
	return C.GoString(C.tslab_version())
}

func (p *Pool) isClosed() bool {
	return atomic.LoadUint32(&p.closed) != 0
}

// fail makes the error of a call. What a closed pool is to libtslab is that it was closed, to the program.
func (p *Pool) fail(r int64, about string) error {
	if p.isClosed() {
		return ErrClosed
	}
	return failure(r, about)
}

// Epoch is a lifetime of entries and objects, with its era. 0 is the epoch that is current.
type Epoch uint32

func (e Epoch) native() C.uint32_t {
	if e == 0 {
		return C.TSLAB_EPOCH_CURRENT
	}
	return C.uint32_t(e)
}

// Epoch returns the current epoch.
func (p *Pool) Epoch() (Epoch, error) {
	var epoch C.uint32_t
	return p.epoch(C.tslab_epoch_current(p.native, &epoch), &epoch)
}

// Advance closes the current epoch to new entries and opens the next. If another than `expected` is current, nothing is
// done, so of many processes that advance by the clock one does.
func (p *Pool) Advance(expected Epoch) (Epoch, error) {
	var epoch C.uint32_t
	return p.epoch(C.tslab_epoch_advance_from(p.native, C.uint32_t(expected), &epoch), &epoch)
}

// Reserve opens an epoch for entries that are to go at one time: a tag. The label is for people.
func (p *Pool) Reserve(label string) (Epoch, error) {
	var epoch C.uint32_t
	text := C.CString(label)
	defer C.free(unsafe.Pointer(text))
	return p.epoch(C.tslab_epoch_reserve(p.native, text, &epoch), &epoch)
}

// Revoke closes an epoch and ends all that was put into it, at once and in all processes.
func (p *Pool) Revoke(epoch Epoch) error {
	if r := C.tslab_epoch_close(p.native, C.uint32_t(epoch), C.TSLAB_CLOSE_REVOKE); r < 0 {
		return p.fail(int64(r), "epoch")
	}
	return nil
}

func (p *Pool) epoch(r C.int, epoch *C.uint32_t) (Epoch, error) {
	if r < 0 {
		return 0, p.fail(int64(r), "epoch")
	}
	return Epoch(*epoch), nil
}

// keep keeps what calls of C use from being finalized meanwhile.
func (m *Map) keep() { runtime.KeepAlive(m) }

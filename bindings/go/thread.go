package tslab

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// Handle names an object in all processes of its pool. 0 is none.
type Handle uint64

// Thread is the right to use objects in place. It belongs to the goroutine to which Pool.OnThread gave it, which is locked
// to its thread meanwhile, and ends with that call: then its methods are ErrClosed.
type Thread struct {
	pool    *Pool
	pending map[Handle]bool
	over    bool
}

// OnThread calls `use` with this goroutine locked to its thread. Objects that are pending then, and were not published, are
// freed.
func (p *Pool) OnThread(use func(*Thread) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	t := &Thread{pool: p, pending: map[Handle]bool{}}
	defer func() {
		for handle := range t.pending { // also where `use` panics
			_ = t.Free(handle)
		}
		t.over = true
	}()
	return use(t)
}

func (t *Thread) check() error {
	if t.over || t.pool.isClosed() {
		return ErrClosed
	}
	return nil
}

// Object is an object in the pool's memory. Its bytes are shared with all processes, which may write at any time, and are
// no memory of Go's: they are valid until somebody frees the object or the pool is closed.
type Object struct {
	Handle Handle
	Bytes  []byte
}

func objectOf(handle C.tslab_handle, address unsafe.Pointer, size int) Object {
	return Object{Handle(handle), unsafe.Slice((*byte)(address), size)}
}

// Alloc makes an object that is everyone's at once. Its memory is not zeroed.
func (t *Thread) Alloc(size int, epoch Epoch) (Object, error) {
	var handle C.tslab_handle
	var address unsafe.Pointer
	if err := t.check(); err != nil {
		return Object{}, err
	}
	if r := C.tslab_alloc(t.pool.native, C.size_t(size), epoch.native(), &handle, &address); r < 0 {
		return Object{}, t.pool.fail(int64(r), "an object")
	}
	return objectOf(handle, address, size), nil
}

// Pending is an object that nobody else knows yet. It is freed if the process dies before Publish.
type Pending struct {
	Object
	thread *Thread
}

// AllocPending makes a pending object: write to it, then publish it.
func (t *Thread) AllocPending(size int, epoch Epoch) (*Pending, error) {
	var handle C.tslab_handle
	var address unsafe.Pointer
	if err := t.check(); err != nil {
		return nil, err
	}
	if r := C.tslab_alloc_pending(t.pool.native, C.size_t(size), epoch.native(), &handle, &address); r < 0 {
		return nil, t.pool.fail(int64(r), "an object")
	}
	t.pending[Handle(handle)] = true
	return &Pending{objectOf(handle, address, size), t}, nil
}

// Publish makes the object everyone's.
func (p *Pending) Publish() error {
	if err := p.thread.check(); err != nil {
		return err
	}
	if r := C.tslab_publish(p.thread.pool.native, C.tslab_handle(p.Handle)); r < 0 {
		return p.thread.pool.fail(int64(r), "an object")
	}
	delete(p.thread.pending, p.Handle)
	return nil
}

// Free frees it.
func (p *Pending) Free() error { return p.thread.Free(p.Handle) }

// Get finds an object. Its size is that of its class.
func (t *Thread) Get(handle Handle) (Object, error) {
	var address unsafe.Pointer
	var size C.size_t
	if err := t.check(); err != nil {
		return Object{}, err
	}
	if r := C.tslab_get(t.pool.native, C.tslab_handle(handle), &address, &size); r < 0 {
		return Object{}, t.pool.fail(int64(r), "an object")
	}
	return objectOf(C.tslab_handle(handle), address, int(size)), nil
}

// Free frees an object, which any process may have made. ErrStale: it is none, or was freed.
func (t *Thread) Free(handle Handle) error {
	if err := t.check(); err != nil {
		return err
	}
	delete(t.pending, handle)
	if r := C.tslab_free(t.pool.native, C.tslab_handle(handle)); r < 0 {
		return t.pool.fail(int64(r), "an object")
	}
	return nil
}

// Root returns the handle that a name has in the pool; ErrNotFound: none.
func (p *Pool) Root(name string) (Handle, error) {
	if p.isClosed() {
		return 0, ErrClosed
	}
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var handle C.tslab_handle
	if r := C.tslab_root_get(p.native, text, &handle); r < 0 {
		return 0, p.fail(int64(r), "root "+name)
	}
	return Handle(handle), nil
}

// SetRoot gives a name a handle if it had `expected`, 0 being none; ErrChanged otherwise. 255 names can be in use.
func (p *Pool) SetRoot(name string, expected, handle Handle) error {
	if p.isClosed() {
		return ErrClosed
	}
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	if r := C.tslab_root_set(p.native, text, C.tslab_handle(expected), C.tslab_handle(handle)); r < 0 {
		return p.fail(int64(r), "root "+name)
	}
	return nil
}

// Read returns a copy of an object, whole if others replace objects and do not change them. Any goroutine.
func (p *Pool) Read(handle Handle) ([]byte, error) {
	if p.isClosed() {
		return nil, ErrClosed
	}
	room := make([]byte, C.tslab_size_max(p.native))
	b, size := bytesOf(room)
	n := int64(C.tslab_read(p.native, C.tslab_handle(handle), unsafe.Pointer(b), size))
	if n < 0 {
		return nil, p.fail(n, "an object")
	}
	return room[:n:n], nil
}

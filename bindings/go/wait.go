package tslab

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
)

// A waiter tells goroutines of the ends of claims. libtslab has one thread for all waits of a pool, and Go's netpoller
// polls its descriptor: goroutines that wait take no thread.
type waiter struct {
	native *C.struct_tslab_waiter
	file   *os.File // of a copy of the descriptor
	done   chan struct{}

	mutex  sync.Mutex
	waits  map[C.uint64_t]chan error
	closed bool
}

func (p *Pool) theWaiter() (*waiter, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.isClosed() {
		return nil, ErrClosed
	}
	if p.waiter != nil {
		return p.waiter, nil
	}
	w := &waiter{done: make(chan struct{}), waits: map[C.uint64_t]chan error{}}
	if r := C.tslab_waiter_open(&w.native, p.native); r < 0 {
		return nil, p.fail(int64(r), "a waiter")
	}
	// os.File closes the descriptor that it has, and this one is the library's.
	fd, _, e := syscall.Syscall(syscall.SYS_FCNTL, uintptr(C.tslab_waiter_fd(w.native)), syscall.F_DUPFD_CLOEXEC, 0)
	if e != 0 {
		C.tslab_waiter_close(w.native)
		return nil, &Error{e, "a waiter"}
	}
	w.file = os.NewFile(fd, "tslab")
	conn, err := w.file.SyscallConn()
	if err != nil {
		w.file.Close()
		C.tslab_waiter_close(w.native)
		return nil, err
	}
	go func() {
		_ = conn.Read(func(uintptr) bool { w.tell(); return false }) // until the file is closed
		close(w.done)
	}()
	p.waiter = w
	return w, nil
}

// tell tells the waits that are over. It does not read the descriptor: each end of a wait is an edge for the netpoller.
func (w *waiter) tell() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	var wait C.uint64_t
	var result C.int
	for !w.closed && C.tslab_waiter_next(w.native, &wait, &result) > 0 {
		ended, ok := w.waits[wait]
		if !ok {
			continue
		}
		delete(w.waits, wait)
		if result < 0 {
			ended <- failure(int64(result), "a wait")
		} else {
			ended <- nil
		}
	}
}

// close ends all waits.
func (w *waiter) close() {
	w.mutex.Lock()
	w.closed = true
	for wait, ended := range w.waits {
		delete(w.waits, wait)
		ended <- ErrClosed
	}
	w.mutex.Unlock()
	w.file.Close()
	<-w.done
	C.tslab_waiter_close(w.native)
}

func (w *waiter) add(m *Map, key []byte, version Version) (C.uint64_t, chan error, error) {
	w.mutex.Lock() // until the wait can be told
	defer w.mutex.Unlock()
	if w.closed {
		return 0, nil, ErrClosed
	}
	var wait C.uint64_t
	k, n := bytesOf(key)
	if err := m.result(C.shim_wait(w.native, m.number(), k, n, C.tslab_handle(version), &wait)); err != nil {
		return 0, nil, err
	}
	ended := make(chan error, 1)
	w.waits[wait] = ended
	return wait, ended, nil
}

func (w *waiter) cancel(wait C.uint64_t) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if _, ok := w.waits[wait]; ok && !w.closed {
		delete(w.waits, wait)
		C.tslab_waiter_cancel(w.native, wait)
	}
}

// Wait waits until `version` is no longer a claim on the key that stands, or the context ends, whose error it returns
// then. Version 0 is any claim. A goroutine that waits for a claim of its own waits until that is over.
func (m *Map) Wait(ctx context.Context, key []byte, version Version) error {
	for {
		claimed, err := m.isClaimed(key, version)
		if err != nil || !claimed {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		err = m.wait(ctx, key, version)
		if !errors.Is(err, syscall.ETIMEDOUT) { // after 49 days
			return err
		}
	}
}

func (m *Map) wait(ctx context.Context, key []byte, version Version) error {
	w, err := m.pool.theWaiter()
	if err != nil {
		return err
	}
	wait, ended, err := w.add(m, key, version)
	if err != nil {
		return err
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		w.cancel(wait)
		return ctx.Err()
	}
}

func (m *Map) isClaimed(key []byte, version Version) (bool, error) {
	if m.isClosed() {
		return false, ErrClosed
	}
	k, n := bytesOf(key)
	r := C.shim_is_claimed(m.number(), k, n, C.tslab_handle(version))
	m.keep()
	if r < 0 && r != -C.int(syscall.ETIMEDOUT) {
		return false, m.fail(int64(r))
	}
	return r < 0, nil
}

// Claim claims an absent key for this process, which is to put its value by Replace with the claim's version, or to give
// it up by DeleteVersion. If `mine` is false, the claim that stands is another's. ErrExists: the key has a value. A claim
// ends after 30 seconds, and when its process does.
func (m *Map) Claim(key []byte) (version Version, mine bool, err error) {
	return m.ClaimFor(key, 30*time.Second)
}

// ClaimFor is Claim for another time than 30 seconds.
func (m *Map) ClaimFor(key []byte, limit time.Duration) (version Version, mine bool, err error) {
	if m.isClosed() {
		return 0, false, ErrClosed
	}
	ms, err := claimOf(limit)
	if err != nil {
		return 0, false, err
	}
	var claim C.tslab_handle
	k, n := bytesOf(key)
	r := C.shim_claim(m.number(), k, n, ms, &claim)
	m.keep()
	if r == -C.int(syscall.EBUSY) {
		return Version(claim), false, nil
	}
	if r < 0 {
		return 0, false, m.fail(int64(r))
	}
	return Version(claim), true, nil
}

// Extend lets a claim stand for another `limit` from now and returns its new version. ErrChanged: it is no more.
func (m *Map) Extend(key []byte, version Version, limit time.Duration) (Version, error) {
	if m.isClosed() {
		return 0, ErrClosed
	}
	ms, err := claimOf(limit)
	if err != nil {
		return 0, err
	}
	claim := C.tslab_handle(version)
	k, n := bytesOf(key)
	err = m.result(C.shim_extend(m.number(), k, n, ms, &claim))
	return Version(claim), err
}

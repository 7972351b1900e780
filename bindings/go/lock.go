package tslab

import (
	"context"
	"sync"
	"syscall"
	"time"
)

// ErrLockLost is the error of a lock that ended before it was released: its time was over, or the map was cleared. It may
// have another owner by now.
var ErrLockLost error = &Error{syscall.EOWNERDEAD, "the lock was lost before it was released: its time was over, or the map was cleared"}

// Lock is a lock of all processes, on a key that has no value. It becomes free when it is released, when its process ends,
// and when its time is over.
type Lock struct {
	m     *Map
	key   []byte
	ttl   time.Duration
	mutex sync.Mutex
	held  Version
}

// NewLock makes a lock, which is free for `ttl` after it was acquired or extended at the latest; 0: 30 seconds.
func (m *Map) NewLock(key string, ttl time.Duration) *Lock {
	if ttl == 0 {
		ttl = 30 * time.Second
	}
	return &Lock{m: m, key: []byte(key), ttl: ttl}
}

// TryAcquire acquires the lock if it is free, and returns whether it did.
func (l *Lock) TryAcquire() (bool, error) {
	_, mine, err := l.try()
	return mine, err
}

func (l *Lock) try() (Version, bool, error) {
	version, mine, err := l.m.ClaimFor(l.key, l.ttl)
	if mine {
		l.set(version)
	}
	return version, mine, err
}

// Acquire acquires the lock, and waits for it until the context ends. Locks are not re-entrant: a goroutine that has this
// one waits for itself.
func (l *Lock) Acquire(ctx context.Context) error {
	for {
		version, mine, err := l.try()
		if mine || err != nil {
			return err
		}
		if err := l.m.Wait(ctx, l.key, version); err != nil {
			return err
		}
	}
}

// Extend holds the lock for another `ttl` from now. ErrLockLost: it is not held any more.
func (l *Lock) Extend() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.held == 0 {
		return ErrLockLost
	}
	version, err := l.m.Extend(l.key, l.held, l.ttl)
	if err == ErrChanged {
		l.held = 0
		return ErrLockLost
	}
	if err == nil {
		l.held = version
	}
	return err
}

// Release releases the lock. ErrLockLost: it was not held until now, so that another may have had it meanwhile.
func (l *Lock) Release() error {
	version := l.set(0)
	if version == 0 {
		return ErrLockLost
	}
	err := l.m.DeleteVersion(l.key, version)
	if err == ErrChanged || err == ErrNotFound {
		return ErrLockLost
	}
	return err
}

func (l *Lock) set(version Version) (before Version) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	before, l.held = l.held, version
	return before
}

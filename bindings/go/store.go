package tslab

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const lookEvery = time.Second

// A store is a map that outlives its pool: when the daemon has ended together with the pool's memory, and a new daemon
// has made a new pool, the store goes on with the map of that name there, which is empty.
type store struct {
	name    string
	options MapOptions
	opened  atomic.Pointer[Map]
	mutex   sync.Mutex
	own     bool   // the pool was opened by this store
	looked  uint32 // 0: the next call looks after the daemon
}

func newStore(pool *Pool, name string, how MapOptions) (*store, error) {
	m, err := pool.MapWith(name, how)
	if err != nil {
		return nil, err
	}
	how.Existing, how.Exclusive = false, false
	s := &store{name: name, options: how}
	s.opened.Store(m)
	return s, nil
}

// use calls with the map that there is, after a look at that once a second. No timer runs where there are no calls.
func (s *store) use(call func(*Map) error) error {
	m := s.opened.Load()
	if atomic.LoadUint32(&s.looked) == 0 && atomic.CompareAndSwapUint32(&s.looked, 0, 1) {
		if m.pool.Stale() {
			if fresh, err := s.reopen(m); err == nil {
				m = fresh
			}
		}
		time.AfterFunc(lookEvery, func() { atomic.StoreUint32(&s.looked, 0) })
	}
	err := call(m)
	if err != nil && m.isGone(err) {
		fresh, e := s.reopen(m)
		if e != nil {
			return err
		}
		return call(fresh)
	}
	return err
}

// isGone returns whether an error means that the map, or the arena, has a successor.
func (m *Map) isGone(err error) bool {
	return errors.Is(err, syscall.EIDRM) || errors.Is(err, ErrReplaced) && m.pool.Stale()
}

func (s *store) reopen(old *Map) (*Map, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if m := s.opened.Load(); m != old {
		return m, nil
	}
	pool := old.pool
	replaced := pool.Stale()
	if replaced {
		var err error
		if pool, err = pool.Reopen(); err != nil {
			return nil, err
		}
	}
	m, err := pool.MapWith(s.name, s.options)
	if err != nil {
		if replaced {
			pool.Close()
		}
		return nil, err
	}
	s.opened.Store(m)
	if replaced {
		if s.own {
			old.pool.Close()
		}
		s.own = true
	}
	return m, nil
}

// write calls, and opens the next epoch where the current one was closed, as by an operator.
func (s *store) write(call func(*Map) error) error {
	for try := 0; ; try++ {
		err := s.use(call)
		if try == 100 || !errors.Is(err, ErrEpochClosed) {
			return err
		}
		pool := s.opened.Load().pool
		current, e := pool.Epoch()
		if e == nil {
			_, e = pool.Advance(current)
		}
		if e != nil && !errors.Is(e, syscall.EBUSY) {
			return e
		}
	}
}

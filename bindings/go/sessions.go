package tslab

import "time"

// Sessions are values by session id, each with a lifetime that begins anew when it is set or touched.
type Sessions struct {
	store    *store
	lifetime time.Duration
}

const lifetimeMax = 3652 * 24 * time.Hour // as the library has it, in whole days

// NewSessions opens sessions; lifetime 0 is half an hour.
func NewSessions(pool *Pool, name string, lifetime time.Duration) (*Sessions, error) {
	if lifetime == 0 {
		lifetime = 30 * time.Minute
	}
	if _, err := ttlOf(atMost(lifetime)); err != nil {
		return nil, err
	}
	s, err := newStore(pool, name, MapOptions{})
	if err != nil {
		return nil, err
	}
	return &Sessions{s, atMost(lifetime)}, nil
}

func atMost(d time.Duration) time.Duration {
	if d > lifetimeMax {
		return lifetimeMax
	}
	return d
}

// Map returns the map that the sessions are in: another one after the daemon was replaced.
func (s *Sessions) Map() *Map { return s.store.opened.Load() }

// Get returns a session. ErrNotFound: there is none, or its lifetime is over.
func (s *Sessions) Get(id string) (data []byte, err error) {
	err = s.store.use(func(m *Map) error { data, err = m.Get(textOf(id)); return err })
	return data, err
}

// Entry returns a session with its version, for Replace.
func (s *Sessions) Entry(id string) (entry Entry, err error) {
	err = s.store.use(func(m *Map) error { entry, err = m.Entry(textOf(id), false); return err })
	return entry, err
}

// Set sets a session. If it fails, the old one stays.
func (s *Sessions) Set(id string, data []byte) error {
	return s.SetFor(id, data, s.lifetime)
}

// SetFor is Set with a lifetime of the session's own.
func (s *Sessions) SetFor(id string, data []byte, lifetime time.Duration) error {
	return s.store.write(func(m *Map) error {
		return m.PutWith(textOf(id), data, PutOptions{TTL: atMost(lifetime)})
	})
}

// Replace sets a session if nobody changed it since this version was read; ErrChanged otherwise. Version 0: a new one.
func (s *Sessions) Replace(id string, version Version, data []byte) error {
	return s.store.write(func(m *Map) error {
		return m.Replace(textOf(id), version, data, PutOptions{TTL: s.lifetime})
	})
}

// Touch begins a session's lifetime anew. ErrNotFound: there is none.
func (s *Sessions) Touch(id string) error {
	return s.store.use(func(m *Map) error { return m.Touch(textOf(id), s.lifetime) })
}

// Delete ends a session, in all processes at once. No error where there is none.
func (s *Sessions) Delete(id string) error {
	err := s.store.use(func(m *Map) error { return m.Delete(textOf(id)) })
	if err == ErrNotFound {
		return nil
	}
	return err
}

// All calls `each` for all sessions until it returns false.
func (s *Sessions) All(each func(id string, data []byte) bool) error {
	return s.store.use(func(m *Map) error {
		return m.Walk(func(e Entry) bool { return each(string(e.Key), e.Value) })
	})
}

package tslab

import "time"

// Limiter limits rates by key; all processes count together.
type Limiter struct {
	store     *store
	perSecond float64
	burst     uint32
}

// NewLimiter opens a limiter: each key may do `perSecond` things a second on average, and `burst` at once.
func NewLimiter(pool *Pool, name string, perSecond float64, burst uint32) (*Limiter, error) {
	s, err := newStore(pool, name, MapOptions{})
	if err != nil {
		return nil, err
	}
	return &Limiter{s, perSecond, burst}, nil
}

// Take takes a token of a key. It returns 0, or how long it takes until there is one.
func (l *Limiter) Take(key string) (retry time.Duration, err error) {
	err = l.store.write(func(m *Map) error {
		retry, err = m.Limit(textOf(key), l.perSecond, l.burst, 1)
		return err
	})
	return retry, err
}

package tslab

import (
	"context"
	"errors"
	"syscall"
	"time"
)

// Cache is a cache of values of one type, by names, that all processes share. Values are in the format that the other
// languages read, see Marshal.
type Cache[V any] struct{ store *store }

// NewCache opens a cache, which is a map with these options, and creates it where there is none.
func NewCache[V any](pool *Pool, name string, how MapOptions) (*Cache[V], error) {
	s, err := newStore(pool, name, how)
	if err != nil {
		return nil, err
	}
	return &Cache[V]{s}, nil
}

// Map returns the map that the cache is in: another one after the daemon was replaced.
func (c *Cache[V]) Map() *Map { return c.store.opened.Load() }

// Get returns a key's value. ErrNotFound: it is absent, or what is there is no value of this type.
func (c *Cache[V]) Get(key string) (value V, err error) {
	value, _, err = c.get(textOf(key), false)
	return value, err
}

// get returns a value, and its entry without the bytes.
func (c *Cache[V]) get(key []byte, stale bool) (value V, entry Entry, err error) {
	in := rooms.Get().(*room)
	defer rooms.Put(in)
	err = c.store.use(func(m *Map) error {
		entry, err = m.entryIn(in.bytes[:], key, stale, getEntry, 0)
		return err
	})
	data := entry.Value
	entry.Value = nil
	if err != nil {
		return value, entry, err
	}
	if text, ok := any(&value).(*string); ok && !entry.Counter && !isDescribed(data) {
		*text = string(data)
		return value, entry, nil
	}
	value, err = decode[V](data, entry.Counter)
	return value, entry, err
}

// decode makes a value of bytes that do not stay. ErrNotFound: they are none of this type.
func decode[V any](data []byte, counter bool) (value V, err error) {
	if !hasJSON(data) { // whose values are copies
		data = copyOf(data)
	}
	if Unmarshal(data, counter, &value) != nil {
		var none V
		return none, ErrNotFound
	}
	return value, nil
}

// Set sets a key's value, with the cache's lifetime. If it fails, the key is absent: nobody takes the old value for the
// new one.
func (c *Cache[V]) Set(key string, value V) error {
	return c.SetFor(key, value, PutOptions{})
}

// SetFor is Set with options: a lifetime, or an epoch.
func (c *Cache[V]) SetFor(key string, value V, how PutOptions) error {
	data, err := Marshal(value)
	if err == nil {
		err = c.store.write(func(m *Map) error { return m.PutWith(textOf(key), data, how) })
	}
	if err != nil {
		_ = c.store.use(func(m *Map) error { return m.Delete(textOf(key)) })
	}
	return err
}

// Add sets the value of an absent key; ErrExists: it has one. Of several that add a key, one does.
func (c *Cache[V]) Add(key string, value V, how PutOptions) error {
	data, err := Marshal(value)
	if err != nil {
		return err
	}
	return c.store.write(func(m *Map) error { return m.Insert(textOf(key), data, how) })
}

// Incr adds to a number and returns the sum; an absent key becomes a counter that begins at 0. No add of others is lost.
// ErrInvalid: the value is no number, or has tags, which the sum would not have.
func (c *Cache[V]) Incr(key string, delta int64) (sum int64, err error) {
	name := textOf(key)
	err = c.store.write(func(m *Map) error {
		for {
			sum, err = m.Add(name, delta)
			if !errors.Is(err, ErrInvalid) {
				return err
			}
			var entry Entry
			if entry, err = m.Entry(name, false); err == ErrNotFound {
				continue
			}
			if err == nil && entry.Counter { // it was replaced just now; or it is a limit
				sum, err = m.Add(name, delta)
				return err
			}
			if err == nil {
				err = m.replaceSum(name, entry, delta, &sum)
			}
			if err != ErrChanged {
				return err
			}
		}
	})
	return sum, err
}

// replaceSum adds to a number that was set as a value.
func (m *Map) replaceSum(key []byte, entry Entry, delta int64, sum *int64) error {
	var number int64
	if entry.Tagged || Unmarshal(entry.Value, false, &number) != nil {
		return ErrInvalid
	}
	*sum = number + delta
	if (delta > 0) != (*sum > number) && delta != 0 {
		return ErrOverflow
	}
	data, err := Marshal(*sum)
	if err != nil {
		return err
	}
	return m.Replace(key, entry.Version, data, PutOptions{TTL: entry.TTL})
}

// Delete deletes a key. ErrNotFound: it was absent.
func (c *Cache[V]) Delete(key string) error {
	return c.store.use(func(m *Map) error { return m.Delete(textOf(key)) })
}

// Invalidate makes all values that have this tag absent at once, in all processes; see PutOptions.TagNames. ErrNotFound: no
// value has it.
func (c *Cache[V]) Invalidate(tag string) error {
	return c.store.use(func(m *Map) error { return m.Invalidate(textOf(tag)) })
}

// Clear deletes all values. Those that are being computed are not kept.
func (c *Cache[V]) Clear() error {
	return c.store.use(func(m *Map) error { _, err := m.Clear(); return err })
}

type computing struct {
	store  *store
	key    string
	before *computing
}

type computingKey struct{}

// GetOrCompute returns a key's value, or computes it. Of all goroutines and processes that miss a key, one computes; the
// others wait, until the context ends, or return the value that was there before, where the cache keeps stale ones. If the
// one that computes fails or is killed, another computes. Where the pool has no room, the value is computed and not kept.
// ErrInvalid: the options are out of range, and the value, which is returned, is not kept. With TagNames the value is absent
// once Invalidate was called for one of them, be it while it is computed.
//
// The computation's context knows the key: to ask for it there, which would wait for itself, is ErrSelf.
func (c *Cache[V]) GetOrCompute(ctx context.Context, key string, how PutOptions,
	compute func(context.Context) (V, error)) (V, error) {
	name := textOf(key)
	for {
		value, entry, err := c.get(name, true)
		if err == nil && !entry.Stale {
			return value, nil
		}
		found := err == nil
		if err == ErrNotFound && entry.Version != 0 && !entry.Stale { // no value of this type
			_ = c.store.use(func(m *Map) error { return m.DeleteVersion(name, entry.Version) })
		}
		var version Version
		var mine bool
		err = c.store.write(func(m *Map) (err error) { version, mine, err = m.Claim(name); return err })
		switch {
		case errors.Is(err, ErrExists):
			continue
		case errors.Is(err, ErrFull), errors.Is(err, ErrTooLarge), errors.Is(err, ErrReadOnly):
			return compute(ctx)
		case err != nil:
			return value, err
		case mine:
			return c.compute(ctx, key, version, how, compute)
		case found:
			return value, nil
		}
		last, _ := ctx.Value(computingKey{}).(*computing)
		for ; last != nil; last = last.before {
			if last.store == c.store && last.key == key {
				return value, ErrSelf
			}
		}
		if err := c.wait(ctx, name, version); err != nil {
			return value, err
		}
	}
}

// wait waits in slices: after each a call looks whether there is a new arena, as a claim in the old one may end late.
func (c *Cache[V]) wait(ctx context.Context, key []byte, version Version) error {
	slice, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	err := c.store.use(func(m *Map) error { return m.Wait(slice, key, version) })
	if err == context.DeadlineExceeded {
		return ctx.Err()
	}
	return err
}

func (c *Cache[V]) compute(ctx context.Context, key string, claim Version, how PutOptions,
	compute func(context.Context) (V, error)) (value V, err error) {
	name := textOf(key)
	m := c.Map()
	done := false
	defer func() {
		if !done { // also where it panics
			_ = m.DeleteVersion(name, claim)
		}
	}()
	e := c.store.write(func(m *Map) (err error) { how, err = m.tagged(how); return err })
	if e != nil { // a pool that takes no tag takes no value
		_ = m.DeleteVersion(name, claim)
		done = true
	}
	before, _ := ctx.Value(computingKey{}).(*computing)
	value, err = compute(context.WithValue(ctx, computingKey{}, &computing{c.store, key, before}))
	if err != nil || done {
		return value, err
	}
	data, err := Marshal(value)
	if err != nil {
		return value, err
	}
	e = c.store.write(func(m *Map) error { return m.Replace(name, claim, data, how) })
	// A value that was put meanwhile is newer than this one, and so is a deletion.
	done = e == nil || errors.Is(e, ErrChanged) || errors.Is(e, syscall.ENOENT)
	if errors.Is(e, ErrInvalid) {
		return value, e
	}
	return value, nil
}

// Lock makes a lock of all processes on a key that has no value.
func (c *Cache[V]) Lock(key string, ttl time.Duration) *Lock { return c.Map().NewLock(key, ttl) }

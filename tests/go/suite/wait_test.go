package tslabtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tslab"
)

const waiters = 10000

// Goroutines that wait take no threads, and all of them hear of the end.
func TestManyWaiters(t *testing.T) {
	m := newMap(t, tslab.MapOptions{})
	version, mine, err := m.ClaimFor([]byte("k"), time.Hour)
	check(t, err)
	same(t, mine, true)
	var waiting, done int32
	results := make(chan error, waiters)
	cancelled, cancel := context.WithCancel(context.Background())
	for i := 0; i < waiters; i++ {
		ctx := context.Background()
		if i%10 == 0 {
			ctx = cancelled
		}
		go func() {
			atomic.AddInt32(&waiting, 1)
			results <- m.Wait(ctx, []byte("k"), version)
			atomic.AddInt32(&done, 1)
		}()
	}
	until(t, func() bool { return atomic.LoadInt32(&waiting) == waiters })
	cancel()
	for i := 0; i < waiters/10; i++ {
		isError(t, <-results, context.Canceled)
	}
	if n := status("Threads"); n >= 50 {
		t.Fatal(n, "threads")
	}
	same(t, atomic.LoadInt32(&done) <= waiters/10, true)
	check(t, m.Replace([]byte("k"), version, []byte("1"), tslab.PutOptions{}))
	for i := waiters / 10; i < waiters; i++ {
		check(t, <-results)
	}
	t.Log(status("Threads"), "threads")
}

func TestWaitEnds(t *testing.T) {
	m := newMap(t, tslab.MapOptions{})
	check(t, m.Wait(context.Background(), []byte("k"), 0)) // no claim
	version, _, err := m.ClaimFor([]byte("k"), time.Hour)
	check(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	isError(t, m.Wait(ctx, []byte("k"), version), context.DeadlineExceeded)
	other, mine, err := m.Claim([]byte("k"))
	check(t, err)
	same(t, other == version && !mine, true)
	extended := must(m.Extend([]byte("k"), version, time.Hour))
	isError(t, m.Replace([]byte("k"), version, nil, tslab.PutOptions{}), tslab.ErrChanged)
	check(t, m.DeleteVersion([]byte("k"), extended))

	_, _, err = m.ClaimFor([]byte("k"), 0)
	isError(t, err, tslab.ErrInvalid)
	check(t, m.Put([]byte("t"), nil))
	isError(t, m.Touch([]byte("t"), 0), tslab.ErrInvalid)

	// A pool that is closed ends its waits.
	pool := must(tslab.Open(os.Getenv("TSLAB_POOL")))
	mine2 := must(pool.Map(m.Name()))
	version, _, err = m.ClaimFor([]byte("k"), time.Hour)
	check(t, err)
	ended := make(chan error)
	go func() { ended <- mine2.Wait(context.Background(), []byte("k"), version) }()
	time.Sleep(10 * time.Millisecond)
	check(t, pool.Close())
	if err := <-ended; !errors.Is(err, tslab.ErrClosed) {
		t.Fatal(err)
	}
}

func TestLock(t *testing.T) {
	m := newMap(t, tslab.MapOptions{})
	var all sync.WaitGroup
	inside, turns := int32(0), 0
	for i := 0; i < 20; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			lock := m.NewLock("turn", time.Hour)
			for i := 0; i < 20; i++ {
				check(t, lock.Acquire(context.Background()))
				same(t, atomic.AddInt32(&inside, 1), 1)
				turns++
				check(t, lock.Extend())
				atomic.AddInt32(&inside, -1)
				check(t, lock.Release())
			}
		}()
	}
	all.Wait()
	same(t, turns, 400)
	lock := m.NewLock("turn", time.Millisecond)
	check(t, lock.Acquire(context.Background()))
	other := m.NewLock("turn", time.Hour)
	until(t, func() bool { return must(other.TryAcquire()) })
	isError(t, lock.Release(), tslab.ErrLockLost)
	isError(t, lock.Extend(), tslab.ErrLockLost)
	check(t, other.Release())
}

func TestCache(t *testing.T) {
	type page struct {
		Title string
		Tags  []string
		N     int64
	}
	pool := open(t)
	cache := must(tslab.NewCache[page](pool, "pages", tslab.MapOptions{Evict: true, LimitBytes: 1 << 20}))
	check(t, cache.Clear())
	want := page{"größe", []string{"a", "b"}, 1 << 60}
	check(t, cache.Set("p", want))
	same(t, fmt.Sprint(must(cache.Get("p"))), fmt.Sprint(want))
	check(t, cache.Map().Put([]byte("p"), []byte("\xd9\xd9\xf7\xff")))
	_, err := cache.Get("p")
	isError(t, err, tslab.ErrNotFound)
	n := 0
	compute := func(context.Context) (page, error) { n++; return want, nil }
	for i := 0; i < 3; i++ {
		same(t, must(cache.GetOrCompute(context.Background(), "p", tslab.PutOptions{}, compute)).N, want.N)
	}
	same(t, n, 1)

	// Neither a computation that fails nor one that panics leaves its claim.
	failed := errors.New("failed")
	_, err = cache.GetOrCompute(context.Background(), "f", tslab.PutOptions{}, func(context.Context) (page, error) { return page{}, failed })
	isError(t, err, failed)
	func() {
		defer func() { same(t, recover() == any("x"), true) }()
		_, _ = cache.GetOrCompute(context.Background(), "f", tslab.PutOptions{}, func(context.Context) (page, error) { panic("x") })
	}()
	// A computation that asks for itself would wait for itself.
	_, err = cache.GetOrCompute(context.Background(), "f", tslab.PutOptions{}, func(ctx context.Context) (page, error) {
		return cache.GetOrCompute(ctx, "f", tslab.PutOptions{}, compute)
	})
	isError(t, err, tslab.ErrSelf)
	same(t, must(cache.GetOrCompute(context.Background(), "f", tslab.PutOptions{}, compute)).N, want.N)

	numbers := must(tslab.NewCache[int](pool, "numbers", tslab.MapOptions{}))
	check(t, numbers.Clear())
	same(t, must(numbers.Incr("counter", 3)), 3)
	same(t, must(numbers.Get("counter")), 3)
	check(t, numbers.Set("set", 5))
	same(t, must(numbers.Incr("set", -7)), -2)
	tag := must(numbers.Map().Tag([]byte("tag")))
	check(t, numbers.SetFor("tagged", 5, tslab.PutOptions{Tags: []tslab.Tag{tag}}))
	_, err = numbers.Incr("tagged", 1)
	same(t, errors.Is(err, tslab.ErrInvalid), true)
	check(t, numbers.Map().Invalidate([]byte("tag")))
	_, err = numbers.Get("tagged")
	isError(t, err, tslab.ErrNotFound)
	same(t, must(numbers.Incr("tagged", 1)), 1)
	number := func(context.Context) (int, error) { return 7, nil }
	// A value that is computed from what was there before the invalidation is never found after it.
	shoes := tslab.PutOptions{TagNames: []string{"shoes"}}
	old := func(context.Context) (int, error) { return 5, numbers.Invalidate("shoes") }
	same(t, must(numbers.GetOrCompute(context.Background(), "of shoes", shoes, old)), 5)
	same(t, must(numbers.GetOrCompute(context.Background(), "of shoes", shoes, number)), 7)
	same(t, must(numbers.Get("of shoes")), 7)
	check(t, numbers.Invalidate("shoes"))
	isError(t, numbers.Invalidate("nobody"), tslab.ErrNotFound)
	_, err = numbers.Get("of shoes")
	isError(t, err, tslab.ErrNotFound)
	// A tag that the pool does not take: the value is computed, and not kept.
	long := tslab.PutOptions{TagNames: []string{string(make([]byte, 5000))}}
	same(t, must(numbers.GetOrCompute(context.Background(), "of shoes", long, number)), 7)
	_, err = numbers.Get("of shoes")
	isError(t, err, tslab.ErrNotFound)
	for _, how := range []tslab.PutOptions{{Tags: make([]tslab.Tag, 5)}, {TTL: -2}} {
		n, err := numbers.GetOrCompute(context.Background(), "invalid", how, number)
		same(t, n == 7 && errors.Is(err, tslab.ErrInvalid), true)
	}
	same(t, must(numbers.Get("set")), -2)
	check(t, numbers.Set("set", math.MaxInt64))
	_, err = numbers.Incr("set", 1)
	isError(t, err, tslab.ErrOverflow)
	_, err = must(tslab.NewCache[string](pool, "numbers", tslab.MapOptions{})).Get("set")
	isError(t, err, tslab.ErrNotFound)

	// A value that does not fit is an error, and the old one is gone.
	text := must(tslab.NewCache[string](pool, "texts", tslab.MapOptions{}))
	check(t, text.Set("t", "old"))
	same(t, errors.Is(text.Set("t", string(make([]byte, 2<<20))), tslab.ErrTooLarge), true)
	_, err = text.Get("t")
	isError(t, err, tslab.ErrNotFound)
}

// Of 8 processes with 16 goroutines each, one computes, and all have its value.
func TestSingleFlight(t *testing.T) {
	pool := open(t)
	m := must(pool.Map("flights"))
	must(m.Clear())
	var all []func() error
	for i := 0; i < 8; i++ {
		c := program("flight")
		check(t, c.Start())
		all = append(all, c.Wait)
	}
	until(t, func() bool { return must(m.Add([]byte("ready"), 0)) == 8 })
	check(t, m.Put([]byte("go"), nil))
	for _, wait := range all {
		check(t, wait())
	}
	same(t, must(m.Add([]byte("computed"), 0)), 1)
	same(t, must(m.Add([]byte("had"), 0)), 8*16)
}

func init() {
	roles["flight"] = func() {
		pool := must(tslab.Open(os.Getenv("TSLAB_POOL")))
		m := must(pool.Map("flights"))
		cache := must(tslab.NewCache[string](pool, "flown", tslab.MapOptions{}))
		must(m.Add([]byte("ready"), 1))
		for _, err := m.Get([]byte("go")); err != nil; _, err = m.Get([]byte("go")) {
			time.Sleep(time.Millisecond)
		}
		var all sync.WaitGroup
		for i := 0; i < 16; i++ {
			all.Add(1)
			go func() {
				defer all.Done()
				value := must(cache.GetOrCompute(context.Background(), "k", tslab.PutOptions{}, func(context.Context) (string, error) {
					must(m.Add([]byte("computed"), 1))
					time.Sleep(50 * time.Millisecond)
					return "value", nil
				}))
				if value == "value" {
					must(m.Add([]byte("had"), 1))
				}
			}()
		}
		all.Wait()
	}
}

func TestSessions(t *testing.T) {
	sessions := must(tslab.NewSessions(open(t), "sessions", 0))
	check(t, sessions.Set("id", []byte("alice")))
	entry := must(sessions.Entry("id"))
	same(t, string(entry.Value), "alice")
	same(t, entry.TTL > 29*time.Minute && entry.TTL <= 30*time.Minute, true)
	check(t, sessions.Replace("id", entry.Version, []byte("bob")))
	isError(t, sessions.Replace("id", entry.Version, []byte("eve")), tslab.ErrChanged)
	check(t, sessions.Touch("id"))
	n := 0
	check(t, sessions.All(func(id string, data []byte) bool { n++; return id == "id" && string(data) == "bob" }))
	same(t, n, 1)
	check(t, sessions.Delete("id"))
	check(t, sessions.Delete("id"))
	isError(t, sessions.Touch("id"), tslab.ErrNotFound)
	check(t, sessions.SetFor("id", nil, time.Millisecond))
	until(t, func() bool { _, err := sessions.Get("id"); return err == tslab.ErrNotFound })
}

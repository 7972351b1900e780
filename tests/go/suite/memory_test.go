package tslabtest

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"tslab"
)

// steady makes Get know the map's values: all keys are there, and the values have one size.
func steady(m *tslab.Map, n, size int) {
	for i := 0; i < n; i++ {
		must(0, m.Put([]byte(fmt.Sprint(i)), bytes.Repeat([]byte{byte(i)}, size)))
	}
	for i := 0; i < 1000; i++ {
		must(m.Get([]byte(fmt.Sprint(i % n))))
	}
}

// allocations returns how many times so many calls allocate.
func allocations(n int, call func(i int)) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := 0; i < n; i++ {
		call(i)
	}
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

func TestAbsentAllocatesNothing(t *testing.T) {
	m := newMap(t, tslab.MapOptions{})
	steady(m, 10, 200)
	key, absent := []byte("1"), []byte("none")
	if n := testing.AllocsPerRun(1000, func() { _, _ = m.Get(absent) }); n != 0 {
		t.Fatal(n)
	}
	// Keys that are there and others, in turn: one allocation for each value.
	if n := allocations(2000, func(i int) {
		if i%2 == 0 {
			must(m.Get(key))
		} else {
			_, _ = m.Get(absent)
		}
	}); n > 1300 && !isRace { // the pool of rooms may be emptied meanwhile; under the race detector it loses every fourth
		t.Fatal(n)
	}
}

func TestCallsAllocateNothing(t *testing.T) {
	if runtime.Version() < "go1.24" {
		t.Skip("this Go does not know that C keeps no pointer: results of calls are on the heap")
	}
	m := newMap(t, tslab.MapOptions{})
	key, value, room := []byte("key"), make([]byte, 200), make([]byte, 300)
	tag := []byte("tag")
	for name, call := range map[string]func(){
		"Put":        func() { check(t, m.Put(key, value)) },
		"PutWith":    func() { check(t, m.PutWith(key, value, tslab.PutOptions{TTL: time.Minute})) },
		"GetInto":    func() { must(m.GetInto(key, room)) },
		"Touch":      func() { check(t, m.Touch(key, time.Minute)) },
		"Add":        func() { must(m.Add([]byte("n"), 1)) },
		"SetCounter": func() { check(t, m.SetCounter([]byte("n"), 1, 0)) },
		"Limit":      func() { must(m.Limit([]byte("limit"), 1, 1, 1)) },
		"Tag":        func() { must(m.Tag(tag)) },
		"Invalidate": func() { must(m.Tag(tag)); check(t, m.Invalidate(tag)) },
		"absent":     func() { _, _ = m.Get([]byte("none")) },
	} {
		check(t, m.Put(key, value))
		if n := testing.AllocsPerRun(100, call); n != 0 {
			t.Error(name, n)
		}
	}
	for name, call := range map[string]func(){ // the value alone
		"Get":      func() { must(m.Get(key)) },
		"Entry":    func() { must(m.Entry(key, false)) },
		"GetTouch": func() { must(m.GetTouch(key, time.Minute)) },
	} {
		if n := testing.AllocsPerRun(100, call); n != 1 {
			t.Error(name, n)
		}
	}
}

// Get guesses sizes. Whatever the map does then, it returns the value, whole, and memory of its own.
func TestGetGuesses(t *testing.T) {
	m := newMap(t, tslab.MapOptions{})
	for _, next := range []int{0, 1, 99, 100, 101, 1023, 1024, 1025, 4096, 4097, 70000} {
		steady(m, 10, 100)
		other := bytes.Repeat([]byte("y"), next)
		check(t, m.Put([]byte("other"), other))
		first := must(m.Get([]byte("1")))
		got := must(m.Get([]byte("other")))
		if got == nil || !bytes.Equal(got, other) {
			t.Fatal(next, len(got))
		}
		_ = append(got, 'x')
		if !bytes.Equal(first, bytes.Repeat([]byte{1}, 100)) || !bytes.Equal(must(m.Get([]byte("1"))), first) {
			t.Fatal(next)
		}
		check(t, m.Delete([]byte("other")))
		_, err := m.Get([]byte("other"))
		isError(t, err, tslab.ErrNotFound)
	}
}

// What a cache returns is no memory that another call uses.
func TestCacheValuesStay(t *testing.T) {
	pool := open(t)
	all := must(tslab.NewCache[any](pool, "values stay", tslab.MapOptions{}))
	raw := must(tslab.NewCache[[]byte](pool, "values stay", tslab.MapOptions{}))
	texts := must(tslab.NewCache[string](pool, "values stay", tslab.MapOptions{}))
	check(t, raw.Set("bytes", []byte("aaaaaaaa")))
	check(t, raw.Set("as CBOR", []byte("\xd9\xd9\xf7aaaaa")))
	a, b, c, d := must(all.Get("bytes")), must(raw.Get("bytes")), must(texts.Get("bytes")), must(raw.Get("as CBOR"))
	e := must(all.Get("as CBOR"))
	check(t, raw.Set("other", []byte(strings.Repeat("z", 100))))
	for i := 0; i < 100; i++ {
		must(texts.Get("other"))
	}
	same(t, string(a.([]byte))+string(b)+c, "aaaaaaaaaaaaaaaaaaaaaaaa")
	same(t, string(d)+string(e.([]byte)), "\xd9\xd9\xf7aaaaa\xd9\xd9\xf7aaaaa")
}

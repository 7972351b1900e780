package tslabtest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tslab"
)

func TestMap(t *testing.T) {
	m := newMap(t, tslab.MapOptions{})
	check(t, m.Put([]byte("a"), []byte("1")))
	same(t, string(must(m.Get([]byte("a")))), "1")
	for _, n := range []int{0, 1, 4095, 4096, 4097, 300000, 1 << 20} {
		value := bytes.Repeat([]byte{byte(n)}, n)
		check(t, m.Put([]byte("k"), value))
		if !bytes.Equal(must(m.Get([]byte("k"))), value) || !bytes.Equal(must(m.Entry([]byte("k"), false)).Value, value) {
			t.Fatal(n)
		}
	}
	check(t, m.Put(nil, nil))
	if v := must(m.Get(nil)); v == nil || len(v) != 0 {
		t.Fatal("an empty value is a value")
	}
	small := make([]byte, 3)
	if _, err := m.GetInto([]byte("k"), small); !errors.Is(err, syscall.EMSGSIZE) {
		t.Fatal(err)
	}
	same(t, must(m.GetInto([]byte("a"), small)), 1)
	same(t, len(must(m.Take([]byte("k")))), 1<<20)
	same(t, must(m.Count()), 2)
	same(t, must(m.Stats()).Entries, 2)
}

func TestErrors(t *testing.T) {
	m := newMap(t, tslab.MapOptions{})
	_, err := m.Get([]byte("none"))
	for _, target := range []error{tslab.ErrNotFound, syscall.ENOENT, fs.ErrNotExist} {
		same(t, errors.Is(err, target), true)
	}
	same(t, errors.Is(err, tslab.ErrFull), false)
	err = m.Put([]byte("a"), make([]byte, 1<<20+1))
	same(t, errors.Is(err, tslab.ErrTooLarge) && errors.Is(err, syscall.E2BIG), true)
	check(t, m.Put([]byte("a"), nil))
	same(t, errors.Is(m.Insert([]byte("a"), nil, tslab.PutOptions{}), tslab.ErrExists), true)
	same(t, errors.Is(m.Update([]byte("b"), nil, tslab.PutOptions{}), tslab.ErrNotFound), true)
	same(t, errors.Is(m.Replace([]byte("a"), 1, nil, tslab.PutOptions{}), tslab.ErrChanged), true)
	same(t, errors.Is(m.PutWith([]byte("a"), nil, tslab.PutOptions{TTL: -2}), tslab.ErrInvalid), true)
	same(t, errors.Is(m.PutWith([]byte("a"), nil, tslab.PutOptions{TTL: 4000 * 24 * time.Hour}), tslab.ErrInvalid), true)
	full := newNamed(t, m.Pool(), "full", tslab.MapOptions{LimitBytes: 4096})
	for err, i := error(nil), 0; ; i++ {
		if err = full.Put([]byte(fmt.Sprint(i)), make([]byte, 200)); err != nil {
			same(t, errors.Is(err, tslab.ErrFull) && errors.Is(err, syscall.ENOSPC), true)
			break
		}
	}
	_, err = tslab.Open(t.TempDir() + "/none.sock")
	same(t, errors.Is(err, syscall.ENOENT), true)
	reader := must(tslab.OpenWith(os.Getenv("TSLAB_POOL"), tslab.PoolOptions{Reader: true}))
	defer reader.Close()
	read := must(reader.MapWith(m.Name(), tslab.MapOptions{Existing: true}))
	same(t, len(must(read.Get([]byte("a")))), 0)
	same(t, errors.Is(read.Put([]byte("a"), nil), tslab.ErrReadOnly), true)
}

func newNamed(t testing.TB, pool *tslab.Pool, name string, how tslab.MapOptions) *tslab.Map {
	return must(pool.MapWith(name, how))
}

func TestSizes(t *testing.T) {
	m := must(open(t).Map("sizes"))
	sizes := []int{0, 1, 7, 256, 1024, 1025, 4096, 4097, 70000}
	for i, size := range sizes {
		check(t, m.Put([]byte(fmt.Sprint(i)), bytes.Repeat([]byte{byte(i)}, size)))
	}
	get := func(i int) {
		value := must(m.Get([]byte(fmt.Sprint(i))))
		if !bytes.Equal(value, bytes.Repeat([]byte{byte(i)}, sizes[i])) || cap(value) > len(value)+len(value)/4+16 {
			t.Fatalf("a value of %d bytes has %d, and room for %d", sizes[i], len(value), cap(value))
		}
	}
	for round := 0; round < 20; round++ {
		for i := range sizes { // each behind each, and behind itself
			for j := range sizes {
				get(i)
				get(j)
				get(j)
				_, err := m.Get([]byte("absent"))
				same(t, errors.Is(err, tslab.ErrNotFound), true)
			}
		}
	}
	check(t, m.Close())
	_, err := m.Get([]byte("3"))
	same(t, errors.Is(err, tslab.ErrClosed), true)
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// A batch gives back the memory of a large call.
func TestBatchAfterLargeCall(t *testing.T) {
	m := must(open(t).Map("batch of many"))
	keys := make([][]byte, 10000)
	for i := range keys {
		keys[i] = []byte(fmt.Sprint(i))
	}
	check(t, m.Put(keys[5], []byte("five")))
	var batch tslab.Batch
	before := heap()
	same(t, string(must(batch.Get(m, keys))[5]), "five")
	if n := heap() - before; n < 10000000 {
		t.Fatalf("a large call has taken %d bytes", n)
	}
	for i := 0; i < 2000; i++ {
		same(t, string(must(batch.Get(m, keys[:8]))[5]), "five")
	}
	if n := int64(heap()) - int64(before); n > 1000000 {
		t.Fatalf("small calls keep %d bytes", n)
	}
	same(t, string(must(batch.Get(m, keys))[5]), "five")
	runtime.KeepAlive(&batch)
}

// Values that are keys, from the last call of the same batch: some of what they name is larger than a room.
func TestBatchOfItsOwnValues(t *testing.T) {
	const n = 150
	m := newMap(t, tslab.MapOptions{})
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = []byte(fmt.Sprint("key ", i))
		name := fmt.Sprint("name ", n-1-i)
		check(t, m.Put(keys[i], []byte(name)))
		check(t, m.Put([]byte(name), bytes.Repeat([]byte(name), 1+i%3*200)))
	}
	var batch tslab.Batch
	names := must(batch.Get(m, keys))
	for i, j := 0, n-1; i < j; i, j = i+1, j-1 {
		names[i], names[j] = names[j], names[i]
	}
	for i, value := range must(batch.Get(m, names)) {
		same(t, string(value), strings.Repeat(fmt.Sprint("name ", i), 1+(n-1-i)%3*200))
	}
}

func TestBatch(t *testing.T) {
	m := newMap(t, tslab.MapOptions{})
	var keys, values [][]byte
	for i := 0; i < 200; i++ {
		keys = append(keys, []byte(fmt.Sprint("key ", i)))
		values = append(values, bytes.Repeat([]byte{byte(i)}, i*i/8))
	}
	check(t, m.PutMany(keys, values, tslab.PutOptions{TTL: time.Hour}))
	keys = append(keys, []byte("none"), keys[7])
	got := must(m.GetMany(keys))
	for i := range values {
		if !bytes.Equal(got[i], values[i]) || got[i] == nil {
			t.Fatal(i)
		}
	}
	if got[200] != nil || !bytes.Equal(got[201], values[7]) {
		t.Fatal("absent, and twice")
	}
	var batch tslab.Batch
	for _, n := range []int{1, 0, len(keys), 65} { // its memory grows, and is used anew
		got := must(batch.Get(m, keys[:n]))
		same(t, len(got), n)
		for i := range got {
			if !bytes.Equal(got[i], must(m.GetMany(keys[i : i+1]))[0]) || (got[i] == nil) != (i == 200) {
				t.Fatal(n, i)
			}
		}
	}
	if n := testing.AllocsPerRun(100, func() { must(batch.Get(m, keys[:64])) }); n != 0 {
		t.Fatal("a batch allocates", n)
	}
	_ = append(got[1], 0xff) // values share memory, and none reaches into the next
	if !bytes.Equal(got[2], values[2]) {
		t.Fatal("an append writes into another value")
	}
	same(t, must(m.Entry(keys[0], false)).TTL > time.Minute, true)
	err := m.PutMany([][]byte{[]byte("x"), []byte("y")}, [][]byte{make([]byte, 2<<20), nil}, tslab.PutOptions{})
	same(t, errors.Is(err, tslab.ErrTooLarge), true)
	_, err = m.Get([]byte("y"))
	check(t, err)
	same(t, len(must(m.GetMany(nil))), 0)
}

func TestCounters(t *testing.T) {
	m := newMap(t, tslab.MapOptions{})
	var all sync.WaitGroup
	for i := 0; i < 8; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := 0; i < 1000; i++ {
				must(m.Add([]byte("n"), 1))
			}
		}()
	}
	all.Wait()
	same(t, must(m.Add([]byte("n"), 0)), 8000)
	same(t, must(m.AddWith([]byte("edge"), 1, math.MaxInt64-1, time.Hour)), math.MaxInt64)
	for _, delta := range []int64{1, math.MaxInt64} {
		_, err := m.Add([]byte("edge"), delta)
		isError(t, err, tslab.ErrOverflow)
	}
	same(t, must(m.Add([]byte("edge"), 0)), math.MaxInt64)
	check(t, m.SetCounter([]byte("edge"), -7, time.Hour))
	same(t, must(m.Add([]byte("edge"), 0)), -7)
	check(t, m.Put([]byte("text"), []byte("x")))
	_, err := m.Add([]byte("text"), 1)
	same(t, errors.Is(err, tslab.ErrInvalid), true)

	limiter := must(tslab.NewLimiter(m.Pool(), "limits", 0.001, 2))
	must(limiter.Take("alice"))
	must(limiter.Take("alice"))
	same(t, must(limiter.Take("alice")) > 0, true)
	same(t, must(limiter.Take("bob")), 0)
}

func TestWalk(t *testing.T) {
	m := newMap(t, tslab.MapOptions{})
	for i := 0; i < 1000; i++ {
		check(t, m.Put([]byte(fmt.Sprint(i)), make([]byte, 10*i)))
	}
	met := map[string]int{}
	check(t, m.Walk(func(e tslab.Entry) bool { met[string(e.Key)] = len(e.Value); return true }))
	for i := 0; i < 1000; i++ {
		same(t, met[fmt.Sprint(i)], 10*i)
	}
	same(t, len(met), 1000)
	n := 0
	check(t, m.Walk(func(tslab.Entry) bool { n++; return n < 3 }))
	same(t, n, 3)
}

func TestTags(t *testing.T) {
	m := newMap(t, tslab.MapOptions{})
	shoes, hats := must(m.Tag([]byte("shoes"))), must(m.Tag([]byte("hats")))
	check(t, m.PutWith([]byte("both"), nil, tslab.PutOptions{Tags: []tslab.Tag{shoes, hats}}))
	check(t, m.PutMany([][]byte{[]byte("a"), []byte("b")}, [][]byte{nil, nil}, tslab.PutOptions{Tags: []tslab.Tag{hats}}))
	check(t, m.Put([]byte("none"), nil))
	check(t, m.Invalidate([]byte("shoes")))
	isError(t, m.Invalidate([]byte("absent")), tslab.ErrNotFound)
	_, err := m.Get([]byte("both"))
	isError(t, err, tslab.ErrNotFound)
	must(m.Get([]byte("b")))
	// A value that was computed before the invalidation does not come in after it.
	check(t, m.PutWith([]byte("late"), nil, tslab.PutOptions{Tags: []tslab.Tag{shoes}}))
	_, err = m.Get([]byte("late"))
	isError(t, err, tslab.ErrNotFound)
	check(t, m.Invalidate([]byte("hats")))
	_, err = m.Get([]byte("b"))
	isError(t, err, tslab.ErrNotFound)
	same(t, m.PutWith([]byte("many"), nil, tslab.PutOptions{Tags: make([]tslab.Tag, 5)}) != nil, true)

	// By their names, as they are when the call begins.
	caps := tslab.PutOptions{Tags: []tslab.Tag{must(m.Tag([]byte("red")))}, TagNames: []string{"caps", "hats"}}
	check(t, m.PutWith([]byte("cap"), nil, caps))
	check(t, m.PutMany([][]byte{[]byte("b")}, [][]byte{nil}, caps))
	for _, tag := range []string{"caps", "red", "hats"} {
		must(m.Get([]byte("cap")))
		must(m.Get([]byte("b")))
		check(t, m.Invalidate([]byte(tag)))
		_, err = m.Get([]byte("cap"))
		isError(t, err, tslab.ErrNotFound)
		_, err = m.Get([]byte("b"))
		isError(t, err, tslab.ErrNotFound)
		caps.Tags[0] = must(m.Tag([]byte("red")))
		check(t, m.PutWith([]byte("cap"), nil, caps))
		check(t, m.PutMany([][]byte{[]byte("b")}, [][]byte{nil}, caps))
	}
	caps.TagNames = append(caps.TagNames, "x", "y")
	same(t, m.PutWith([]byte("many"), nil, caps) != nil, true)
	must(m.Get([]byte("none")))
}

func TestGetTouch(t *testing.T) {
	m := newMap(t, tslab.MapOptions{})
	_, err := m.GetTouch([]byte("a"), time.Hour)
	isError(t, err, tslab.ErrNotFound)
	check(t, m.Put([]byte("a"), bytes.Repeat([]byte("v"), 5000)))
	entry := must(m.GetTouch([]byte("a"), time.Hour))
	same(t, len(entry.Value), 5000)
	same(t, must(m.Entry([]byte("a"), false)).TTL > time.Hour-time.Minute, true)
	_, err = m.GetTouch([]byte("a"), 0)
	same(t, err != nil, true)
}

func TestTag(t *testing.T) {
	m := newMap(t, tslab.MapOptions{})
	tag := must(m.Pool().Reserve("tag"))
	check(t, m.PutWith([]byte("a"), nil, tslab.PutOptions{Epoch: tag}))
	check(t, m.Put([]byte("b"), nil))
	same(t, must(m.Expire(tag)), 1)
	_, err := m.Get([]byte("a"))
	isError(t, err, tslab.ErrNotFound)
	check(t, m.PutWith([]byte("c"), nil, tslab.PutOptions{Epoch: tag}))
	check(t, m.Pool().Revoke(tag))
	_, err = m.Get([]byte("c"))
	isError(t, err, tslab.ErrNotFound)
	err = m.PutWith([]byte("c"), nil, tslab.PutOptions{Epoch: tag})
	same(t, errors.Is(err, tslab.ErrEpochClosed) || errors.Is(err, tslab.ErrStale), true)
	_, err = m.Get([]byte("b"))
	check(t, err)
}

func TestCloseBesideCalls(t *testing.T) {
	pool := must(tslab.Open(os.Getenv("TSLAB_POOL")))
	m := must(pool.Map("CloseBesideCalls"))
	lock := m.NewLock("turn", 0)
	same(t, must(lock.TryAcquire()), true)
	var all sync.WaitGroup
	for i := 0; i < 8; i++ {
		all.Add(1)
		go func(key []byte) {
			defer all.Done()
			for {
				err := m.Put(key, key)
				if _, e := m.Get(key); err == nil && e != tslab.ErrNotFound {
					err = e
				}
				if err != nil {
					if !errors.Is(err, tslab.ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		}([]byte{byte(i)})
	}
	time.Sleep(20 * time.Millisecond)
	again := must(open(t).Map("CloseBesideCalls"))
	check(t, pool.Close())
	all.Wait()
	isError(t, pool.Close(), tslab.ErrClosed)
	_, err := m.Get([]byte("a"))
	same(t, errors.Is(err, tslab.ErrClosed), true)

	// The process's locks are free, and what it put is there.
	until(t, func() bool { return must(again.NewLock("turn", 0).TryAcquire()) })
	check(t, again.Close())
	_, err = again.Get([]byte("a"))
	isError(t, err, tslab.ErrClosed)
}

func TestObjects(t *testing.T) {
	pool := open(t)
	var kept *tslab.Thread
	var freed tslab.Handle
	var handle tslab.Handle
	check(t, pool.OnThread(func(thread *tslab.Thread) error {
		kept = thread
		object := must(thread.AllocPending(100, 0))
		copy(object.Bytes, "hello")
		check(t, object.Publish())
		handle = object.Handle
		freed = must(thread.AllocPending(100, 0)).Handle
		return nil
	}))
	_, err := kept.Get(handle)
	isError(t, err, tslab.ErrClosed)
	same(t, string(must(pool.Read(handle))[:5]), "hello")
	_, err = pool.Read(freed)
	same(t, errors.Is(err, tslab.ErrStale), true)
	root, err := pool.Root("object")
	if err != nil && !errors.Is(err, tslab.ErrNotFound) {
		t.Fatal(err)
	}
	check(t, pool.SetRoot("object", root, handle))
	same(t, errors.Is(pool.SetRoot("object", root, handle+1), tslab.ErrChanged), true)
	same(t, must(pool.Root("object")), handle)
	check(t, pool.OnThread(func(thread *tslab.Thread) error {
		same(t, string(must(thread.Get(handle)).Bytes[:5]), "hello")
		return thread.Free(handle)
	}))
	check(t, pool.SetRoot("object", handle, 0))
}

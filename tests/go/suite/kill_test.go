package tslabtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"tslab"
)

// A killWorker tells of a step before it ('+') and after it ('.'), so that sums have bounds; 'W' is a wrong value.
type killWorker struct {
	*exec.Cmd
	mutex sync.Mutex
	steps bytes.Buffer
	ended chan struct{}
}

func (w *killWorker) text() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.steps.String()
}

func (w *killWorker) Write(data []byte) (int, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.steps.Write(data)
}

func startKillWorker(t *testing.T) *killWorker {
	w := &killWorker{Cmd: program("kill"), ended: make(chan struct{})}
	out := must(w.StdoutPipe())
	check(t, w.Start())
	go func() { _, _ = io.Copy(w, out); close(w.ended) }()
	return w
}

func (w *killWorker) kill(t *testing.T) {
	check(t, w.Process.Kill())
	<-w.ended
	_ = w.Wait()
	status := w.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Signaled() || status.Signal() != syscall.SIGKILL {
		text := w.text()
		t.Fatalf("a worker ended by itself: %v, %q", w.ProcessState, text[max0(len(text)-80):])
	}
}

func max0(n int) int {
	if n < 0 {
		return 0
	}
	return n
}

// Workers that are killed at random while they count, compute, save sessions and take turns: nothing is lost or hung.
func TestKills(t *testing.T) {
	if testing.Short() {
		t.Skip("go-kills runs it")
	}
	kills := 40
	if os.Getenv("TSLAB_TEST_FULL") != "" {
		kills = 10000
	}
	seed := time.Now().UnixNano()
	if text := os.Getenv("TSLAB_TEST_SEED"); text != "" {
		seed = must(strconv.ParseInt(text, 10, 64))
	}
	t.Log("seed", seed)
	chance := rand.New(rand.NewSource(seed))
	m := newMap(t, tslab.MapOptions{})
	workers := make([]*killWorker, 4)
	for i := range workers {
		workers[i] = startKillWorker(t)
	}
	begun, done := 0, 0
	count := func(w *killWorker) {
		text := w.text()
		begun += bytes.Count([]byte(text), []byte{'+'})
		done += bytes.Count([]byte(text), []byte{'.'})
		if bytes.IndexByte([]byte(text), 'W') >= 0 {
			t.Error("a wrong value")
		}
	}
	for i := 0; i < kills; i++ {
		victim := chance.Intn(len(workers))
		until(t, func() bool { return workers[victim].text() != "" })
		time.Sleep(time.Duration(chance.Int63n(int64(10 * time.Millisecond))))
		workers[victim].kill(t)
		count(workers[victim])
		workers[victim] = startKillWorker(t)
	}
	for _, w := range workers { // none hangs
		before := len(w.text())
		until(t, func() bool { return len(w.text()) > before+3 })
	}
	for _, w := range workers {
		w.kill(t)
		count(w)
	}
	total := must(m.Add([]byte("sum"), 0))
	t.Logf("%d kills; %d to %d adds, %d counted", kills, done, begun, total)
	if int64(done) > total || total > int64(begun) {
		t.Fatal("adds were lost")
	}
}

func init() {
	roles["kill"] = func() {
		pool := must(tslab.Open(os.Getenv("TSLAB_POOL")))
		m := must(pool.Map("Kills"))
		cache := must(tslab.NewCache[[]string](pool, "killed", tslab.MapOptions{Evict: true, LimitBytes: 1 << 20}))
		ctx := context.Background()
		chance := rand.New(rand.NewSource(int64(os.Getpid())))
		tell := func(what string) { must(os.Stdout.WriteString(what)) }
		for g := 0; g < 2; g++ { // beside, so that several threads are inside calls
			go func(seed int64) {
				chance := rand.New(rand.NewSource(seed))
				for {
					id := "session" + strconv.Itoa(chance.Intn(10))
					must(0, m.PutWith([]byte(id), bytes.Repeat([]byte(id), 1+chance.Intn(400)), tslab.PutOptions{TTL: time.Minute}))
					if found, err := m.Get([]byte(id)); err != nil || len(bytes.ReplaceAll(found, []byte(id), nil)) > 0 {
						tell("W")
					}
				}
			}(int64(g))
		}
		for i := 0; ; i++ {
			tell("+")
			must(m.Add([]byte("sum"), 1))
			tell(".")
			key := fmt.Sprint("key", chance.Intn(50))
			value := must(cache.GetOrCompute(ctx, key, tslab.PutOptions{}, func(context.Context) ([]string, error) {
				return []string{key, string(make([]byte, chance.Intn(3000)))}, nil
			}))
			if value[0] != key {
				tell("W")
			}
			if i%3 == 0 {
				_ = cache.Delete(key)
			}
			lock := m.NewLock("turn", time.Hour)
			must(0, lock.Acquire(ctx))
			mine := strconv.Itoa(os.Getpid())
			must(0, m.Put([]byte("owner"), []byte(mine)))
			time.Sleep(100 * time.Microsecond)
			if string(must(m.Get([]byte("owner")))) != mine {
				tell("W")
			}
			must(0, lock.Release())
		}
	}
}

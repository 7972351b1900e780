// Tests of the Go binding on the pool that $TSLAB_POOL names: ../run.py starts its daemon.
package tslabtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"tslab"
)

// Programs that tests start: this binary, with the name of one in $TSLAB_TEST_ROLE.
var roles = map[string]func(){}

func TestMain(m *testing.M) {
	if role := roles[os.Getenv("TSLAB_TEST_ROLE")]; role != nil {
		role()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func program(role string) *exec.Cmd {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "TSLAB_TEST_ROLE="+role)
	c.Stderr = os.Stderr
	return c
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same[T comparable](t testing.TB, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%v, not %v", got, want)
	}
}

func open(t testing.TB) *tslab.Pool {
	pool := must(tslab.Open(os.Getenv("TSLAB_POOL")))
	t.Cleanup(func() { pool.Close() })
	return pool
}

func isError(t testing.TB, got, want error) {
	t.Helper()
	if got != want && !errors.Is(got, want) {
		t.Fatalf("%v, not %v", got, want)
	}
}

// newMap makes a map of the test's own.
func newMap(t testing.TB, how tslab.MapOptions) *tslab.Map {
	name := strings.NewReplacer("/", ".", "Test", "").Replace(t.Name())
	m := must(open(t).MapWith(name, how))
	must(m.Clear())
	return m
}

// until waits for a state that comes for certain.
func until(t testing.TB, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain")
		}
	}
}

func status(field string) (n int) {
	for _, line := range strings.Split(string(must(os.ReadFile("/proc/self/status"))), "\n") {
		if strings.HasPrefix(line, field+":") {
			fmt.Sscan(line[len(field)+1:], &n)
		}
	}
	return n
}

// Calls on a map by the Go module. Usage: go SOCKET SECONDS; prints one JSON object.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"runtime"
	"sort"
	"strconv"
	"sync"
	"time"

	"tslab"
)

const nKeys, nBatch = 1000, 64

// measure returns nanoseconds a call: the median of rounds over all keys, of which each call takes so many.
func measure(seconds float64, each int, call func(i int) error) float64 {
	var rounds []float64
	end := time.Now().Add(time.Duration(seconds * 1e9))
	for time.Now().Before(end) || len(rounds) == 0 {
		begin := time.Now()
		n := 0
		for ; n+each <= nKeys; n += each {
			if err := call(n); err != nil {
				log.Fatal(err)
			}
		}
		rounds = append(rounds, float64(time.Since(begin).Nanoseconds())/float64(n))
	}
	sort.Float64s(rounds)
	return rounds[len(rounds)/2]
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	seconds := must(strconv.ParseFloat(os.Args[2], 64))
	pool := must(tslab.Open(os.Args[1]))
	m := must(pool.Map("go"))
	texts := must(tslab.NewCache[string](pool, "go texts", tslab.MapOptions{}))
	objects := must(tslab.NewCache[map[string]string](pool, "go objects", tslab.MapOptions{}))
	value, room := bytes.Repeat([]byte("x"), 256), make([]byte, 1024)
	names, keys := make([]string, nKeys), make([][]byte, nKeys)
	object, own := map[string]string{}, sync.Map{}
	for i := range keys {
		names[i] = fmt.Sprint("session:", 100000+i)
		keys[i] = []byte(names[i])
		must(0, m.Put(keys[i], value))
		must(0, texts.Set(names[i], string(value)))
		own.Store(names[i], value)
	}
	for i := 0; i < 10; i++ {
		object[fmt.Sprint("name ", i)] = fmt.Sprint("value ", i)
	}
	must(0, objects.Set("object", object))

	ns := map[string]float64{}
	for name, call := range map[string]func(i int) error{
		"get into a buffer":         func(i int) error { _, err := m.GetInto(keys[i], room); return err },
		"get as bytes":              func(i int) error { _, err := m.Get(keys[i]); return err },
		"put":                       func(i int) error { return m.Put(keys[i], value) },
		"add":                       func(i int) error { _, err := m.Add([]byte("counter"), 1); return err },
		"get of a cache":            func(i int) error { _, err := texts.Get(names[i]); return err },
		"get of a cache, an object": func(i int) error { _, err := objects.Get("object"); return err },
		"get of a sync.Map (Go)":    func(i int) error { own.Load(names[i]); return nil },
	} {
		ns[name] = measure(seconds, 1, call)
	}
	ns["get, 64 in a call, each"] = measure(seconds, nBatch, func(i int) error {
		_, err := m.GetMany(keys[i : i+nBatch])
		return err
	})
	var batch tslab.Batch
	ns["get into a batch of 64, each"] = measure(seconds, nBatch, func(i int) error {
		_, err := batch.Get(m, keys[i:i+nBatch])
		return err
	})
	must(0, json.NewEncoder(os.Stdout).Encode(map[string]any{"name": "Go", "version": runtime.Version(), "ns": ns}))
}

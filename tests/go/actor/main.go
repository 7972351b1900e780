// The actor of the Go binding for ../../conformance, which has the protocol.
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"tslab"
)

type request struct {
	Map, Call, Name, Key, Value, Evict string
	Version, Delta, Initial, Number    any
	TTL                                *int64  `json:"ttl_ms"`
	Stale                              any     `json:"stale"`
	StaleMS                            int64   `json:"stale_ms"`
	LimitBytes                         uint64  `json:"limit_bytes"`
	ValueMax                           uint32  `json:"value_max"`
	LimitMS                            *int64  `json:"limit_ms"`
	TimeoutMS                          int64   `json:"timeout_ms"`
	PerSecond                          float64 `json:"per_second"`
	Burst                              uint32
	Cost                               uint32
	Keys, Values                       []string
}

var names = map[syscall.Errno]string{
	syscall.ENOENT: "ENOENT", syscall.EEXIST: "EEXIST", syscall.EAGAIN: "EAGAIN", syscall.EINVAL: "EINVAL",
	syscall.E2BIG: "E2BIG", syscall.ENOSPC: "ENOSPC", syscall.ENOMEM: "ENOMEM", syscall.EBUSY: "EBUSY",
	syscall.ETIMEDOUT: "ETIMEDOUT", syscall.EBADF: "EBADF", syscall.EROFS: "EROFS",
	syscall.EOVERFLOW: "EOVERFLOW",
}

func ms(n *int64) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n) * time.Millisecond
}

func unhex(text string) []byte {
	data, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return data
}

func all(texts []string) (list [][]byte) {
	for _, text := range texts {
		list = append(list, unhex(text))
	}
	return list
}

func number(of any) int64 {
	if of == nil {
		return 0
	}
	if n, err := strconv.ParseUint(fmt.Sprint(of), 10, 64); err == nil {
		return int64(n)
	}
	n, err := strconv.ParseInt(fmt.Sprint(of), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

type object map[string]any

func version(v tslab.Version) object { return object{"version": strconv.FormatUint(uint64(v), 10)} }

type actor struct {
	socket string
	pool   *tslab.Pool
	maps   map[string]*tslab.Map
}

func (a *actor) open(r *request) (err error) {
	if a.pool == nil {
		if a.pool, err = tslab.Open(a.socket); err != nil {
			return err
		}
	}
	a.maps[r.Map], err = a.pool.MapWith(r.Name, tslab.MapOptions{TTL: ms(r.TTL), Stale: ms(&r.StaleMS),
		LimitBytes: r.LimitBytes, ValueMax: r.ValueMax, Evict: r.Evict == "sieve"})
	return err
}

func (a *actor) call(r *request) (any, error) {
	m, key, value := a.maps[r.Map], unhex(r.Key), unhex(r.Value)
	how := tslab.PutOptions{TTL: ms(r.TTL)}
	of := tslab.Version(number(r.Version))
	switch r.Call {
	case "map":
		return nil, a.open(r)
	case "close_map":
		return nil, m.Close()
	case "close":
		pool := a.pool
		a.pool = nil
		return nil, pool.Close()
	case "get":
		value, err := m.Get(key)
		return hex.EncodeToString(value), err
	case "take":
		value, err := m.Take(key)
		return hex.EncodeToString(value), err
	case "info":
		stale, _ := r.Stale.(bool)
		e, err := m.Entry(key, stale)
		reply := version(e.Version)
		reply["value"], reply["stale"], reply["counter"] = hex.EncodeToString(e.Value), e.Stale, e.Counter
		reply["ttl_left_ms"] = nil
		if e.TTL != tslab.NoEnd {
			reply["ttl_left_ms"] = e.TTL.Milliseconds()
		}
		return reply, err
	case "put":
		if how.TTL == 0 {
			return nil, m.Put(key, value)
		}
		return nil, m.PutWith(key, value, how)
	case "insert":
		return nil, m.Insert(key, value, how)
	case "update":
		return nil, m.Update(key, value, how)
	case "replace":
		return nil, m.Replace(key, of, value, how)
	case "touch":
		return nil, m.Touch(key, ms(r.TTL))
	case "delete":
		return nil, m.DeleteVersion(key, of)
	case "add":
		sum, err := m.AddWith(key, number(r.Delta), number(r.Initial), ms(r.TTL))
		return strconv.FormatInt(sum, 10), err
	case "set_counter":
		return nil, m.SetCounter(key, number(r.Number), ms(r.TTL))
	case "limit":
		retry, err := m.Limit(key, r.PerSecond, r.Burst, r.Cost)
		return retry.Milliseconds(), err
	case "claim":
		claim := m.Claim
		if r.LimitMS != nil {
			claim = func(key []byte) (tslab.Version, bool, error) { return m.ClaimFor(key, ms(r.LimitMS)) }
		}
		v, mine, err := claim(key)
		if err == nil && !mine {
			return version(v), syscall.EBUSY
		}
		return version(v), err
	case "extend":
		v, err := m.Extend(key, of, ms(r.LimitMS))
		return version(v), err
	case "wait":
		ctx, cancel := context.WithTimeout(context.Background(), ms(&r.TimeoutMS))
		defer cancel()
		err := m.Wait(ctx, key, of)
		if errors.Is(err, context.DeadlineExceeded) {
			err = syscall.ETIMEDOUT
		}
		return nil, err
	case "get_many":
		values, err := m.GetMany(all(r.Keys))
		list := []any{}
		for _, value := range values {
			if value == nil {
				list = append(list, nil)
			} else {
				list = append(list, hex.EncodeToString(value))
			}
		}
		return list, err
	case "put_many":
		return nil, m.PutMany(all(r.Keys), all(r.Values), how)
	case "walk":
		list := [][2]string{}
		err := m.Walk(func(e tslab.Entry) bool {
			list = append(list, [2]string{hex.EncodeToString(e.Key), hex.EncodeToString(e.Value)})
			return true
		})
		return list, err
	case "count":
		return m.Count()
	}
	return nil, syscall.ENOSYS
}

func (a *actor) answer(r *request) object {
	result, err := a.call(r)
	if err == nil {
		return object{"ok": result}
	}
	var e syscall.Errno
	if !errors.As(err, &e) || names[e] == "" {
		panic(err)
	}
	reply := object{"error": names[e]}
	if v, ok := result.(object); ok && e == syscall.EBUSY {
		reply["version"] = v["version"]
	}
	return reply
}

func main() {
	pool, err := tslab.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	a := &actor{os.Args[1], pool, map[string]*tslab.Map{}}
	out := json.NewEncoder(os.Stdout)
	_ = out.Encode(object{"binding": "go", "lacks": []string{}})
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			panic(err)
		}
		_ = out.Encode(a.answer(&r))
	}
}

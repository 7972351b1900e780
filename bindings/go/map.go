package tslab

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// NoEnd is the lifetime of what has none of its own, also in a map that has one.
const NoEnd time.Duration = -1

// Version names a value of a key. Each put makes another one; 0 is that of an absent key.
type Version uint64

// Tag is a tag as it was when Map.Tag was called, for PutOptions.
type Tag uint64

// Map is a map of bytes to bytes, open in this process.
type Map struct {
	native *C.struct_tslab_map
	pool   *Pool
	name   string
	closed uint32
	_      [64]byte // the next ones change; the others are on a cache line that does not
	likely uint32   // size that the next value has, as Get guesses; 0: it does not
	sample uint32   // size of the last value that was looked at for that guess
	streak uint32   // how many of those had this size, one after the other
}

// MapOptions belong to the map: all but the first two count only if the call creates it.
type MapOptions struct {
	Existing   bool          // ErrNotFound if there is no such map
	Exclusive  bool          // ErrExists if there is one
	TTL        time.Duration // lifetime of entries that are put without one; 0: no end
	LimitBytes uint64        // memory of the entries; 0: as much as there is
	ValueMax   uint32        // size of the largest value, up to 16 MiB; 0: 1 MiB
	Stale      time.Duration // for how long expired values can be had as stale ones
	Evict      bool          // entries that were not used for long make room, where puts would be ErrFull
}

// Map opens the map of that name, and creates it where there is none.
func (p *Pool) Map(name string) (*Map, error) {
	return p.MapWith(name, MapOptions{})
}

// MapWith opens a map with options.
func (p *Pool) MapWith(name string, how MapOptions) (*Map, error) {
	if p.isClosed() {
		return nil, ErrClosed
	}
	ttl, err := ttlOf(how.TTL)
	if err != nil {
		return nil, err
	}
	stale, err := limitOf(how.Stale)
	if err != nil {
		return nil, err
	}
	options := C.struct_tslab_map_options{}
	options.size = C.sizeof_struct_tslab_map_options
	if how.Existing {
		options.flags |= C.TSLAB_MAP_EXISTING
	}
	if how.Exclusive {
		options.flags |= C.TSLAB_MAP_EXCLUSIVE
	}
	if how.TTL != NoEnd {
		options.ttl_ms = ttl
	}
	options.stale_ms = stale
	options.limit_bytes = C.uint64_t(how.LimitBytes)
	options.value_max = C.uint32_t(how.ValueMax)
	if how.Evict {
		options.evict = C.TSLAB_MAP_EVICT_SIEVE
	}
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	m := &Map{pool: p, name: name}
	if r := C.tslab_map_open(&m.native, p.native, text, &options); r < 0 {
		return nil, p.fail(int64(r), "map "+name)
	}
	// Only memory of this process is freed, and once no call can be inside: what is shared stays.
	runtime.SetFinalizer(m, func(m *Map) { C.tslab_map_close(m.native) })
	return m, nil
}

// Close ends the use of the map in this process; it stays in the pool. Other goroutines may be inside calls.
func (m *Map) Close() error {
	if !atomic.CompareAndSwapUint32(&m.closed, 0, 1) {
		return ErrClosed
	}
	return nil
}

// Pool returns the map's pool.
func (m *Map) Pool() *Pool { return m.pool }

// Name returns the map's name.
func (m *Map) Name() string { return m.name }

// SizeMax returns the size of the largest value.
func (m *Map) SizeMax() int {
	defer m.keep()
	return int(C.tslab_map_size_max(m.native))
}

// number is the map as calls of C take it.
func (m *Map) number() C.map_t { return C.map_t(uintptr(unsafe.Pointer(m.native))) }

func (m *Map) isClosed() bool { return atomic.LoadUint32(&m.closed) != 0 }

func (m *Map) fail(r int64) error {
	if r == -int64(syscall.ENOENT) {
		return ErrNotFound
	}
	if r == -int64(syscall.EAGAIN) {
		return ErrChanged
	}
	return m.pool.fail(r, "map "+m.name)
}

func (m *Map) result(r C.int) error {
	runtime.KeepAlive(m)
	if r < 0 {
		return m.fail(int64(r))
	}
	return nil
}

// ttlOf makes milliseconds of a lifetime: 0 is that of the map.
func ttlOf(d time.Duration) (C.uint64_t, error) {
	if d == NoEnd {
		return C.UINT64_MAX, nil // TSLAB_MAP_TTL_NONE, of which cgo makes -1
	}
	ms := (d + time.Millisecond - 1) / time.Millisecond
	if d < 0 || ms > C.TSLAB_MAP_TTL_MAX {
		return 0, &Error{syscall.EINVAL, "a lifetime is NoEnd, or above 0 and up to ten years, not " + d.String()}
	}
	return C.uint64_t(ms), nil
}

// lifetimeOf is ttlOf where there is no other lifetime for which 0 stands.
func lifetimeOf(d time.Duration) (C.uint64_t, error) {
	if d == 0 {
		return 0, &Error{syscall.EINVAL, "a time of 0"}
	}
	return ttlOf(d)
}

// limitOf is ttlOf for stale values, and claimOf is lifetimeOf for claims: none of these times is longer than 49 days.
func limitOf(d time.Duration) (C.uint32_t, error) { return clamp(ttlOf(d)) }
func claimOf(d time.Duration) (C.uint32_t, error) { return clamp(lifetimeOf(d)) }

func clamp(ms C.uint64_t, err error) (C.uint32_t, error) {
	if ms > C.UINT32_MAX {
		ms = C.UINT32_MAX
	}
	return C.uint32_t(ms), err
}

// bytesOf returns the address of bytes, of which C is told their number. Addresses are taken before a call: of one that is
// taken in its arguments, cgo looks at the whole slice, which older compilers copy to the heap for that.
func bytesOf(b []byte) (*C.byte_t, C.size_t) {
	if len(b) == 0 {
		return nil, 0
	}
	return (*C.byte_t)(unsafe.Pointer(&b[0])), C.size_t(len(b))
}

// textOf returns the bytes of a string, which nobody may change.
func textOf(s string) (b []byte) {
	if s == "" {
		return nil
	}
	return *(*[]byte)(unsafe.Pointer(&struct {
		string
		int
	}{s, len(s)}))
}

// GetInto copies a key's value to the start of a buffer and returns its size. EMSGSIZE: the buffer is too small.
func (m *Map) GetInto(key, buffer []byte) (int, error) {
	if m.isClosed() {
		return 0, ErrClosed
	}
	k, n := bytesOf(key)
	b, size := bytesOf(buffer)
	r := int64(C.shim_get(m.number(), k, n, b, size))
	runtime.KeepAlive(m)
	if r < 0 {
		return 0, m.fail(r)
	}
	return int(r), nil
}

// Entry is a value with all that is known of it.
type Entry struct {
	Key     []byte // of Next alone
	Value   []byte
	Version Version
	Epoch   Epoch
	TTL     time.Duration // that is left, or NoEnd
	Stale   bool          // its time is over
	Counter bool          // the value is a counter's, or a limit's
	Tagged  bool          // it has tags
}

func (e *Entry) describe(info *C.struct_tslab_map_info) {
	e.Version, e.Epoch = Version(info.version), Epoch(info.epoch)
	e.Stale, e.Counter = info.flags&C.TSLAB_MAP_STALE != 0, info.flags&C.TSLAB_MAP_COUNTER != 0
	e.Tagged = info.flags&C.TSLAB_MAP_TAGGED != 0
	e.TTL = NoEnd
	if info.ttl_left_ms != C.UINT64_MAX {
		e.TTL = time.Duration(info.ttl_left_ms) * time.Millisecond
	}
}

// Entry returns a key's value and its version, for Replace, and more. With `stale`, a value whose time is over will do
// for as long as the map keeps it.
func (m *Map) Entry(key []byte, stale bool) (Entry, error) {
	return m.entry(key, stale, getEntry, 0)
}

// Take deletes a key and returns the value that it had, in one step: of several that take a value, one gets it.
func (m *Map) Take(key []byte) ([]byte, error) {
	entry, err := m.entry(key, false, takeEntry, 0)
	return entry.Value, err
}

type entryCall int

const (
	getEntry entryCall = iota
	takeEntry
	touchEntry
)

func (m *Map) entry(key []byte, stale bool, call entryCall, ttl C.uint64_t) (entry Entry, err error) {
	small := rooms.Get().(*room)
	entry, err = m.entryIn(small.bytes[:], key, stale, call, ttl)
	if err == nil && len(entry.Value) <= roomSize {
		entry.Value = copyOf(entry.Value)
	}
	rooms.Put(small)
	return entry, err
}

// entryIn is entry, whose value is in this room or, if that is too small for it, in memory of its own.
func (m *Map) entryIn(room, key []byte, stale bool, call entryCall, ttl C.uint64_t) (entry Entry, err error) {
	if m.isClosed() {
		return entry, ErrClosed
	}
	var info C.struct_tslab_map_info
	if stale {
		info.accept = C.TSLAB_MAP_STALE
	}
	k, n := bytesOf(key)
	for {
		b, size := bytesOf(room)
		var r int64
		switch call {
		case takeEntry:
			r = int64(C.shim_take(m.number(), k, n, b, size, &info))
		case touchEntry:
			r = int64(C.shim_get_touch(m.number(), k, n, ttl, b, size, &info))
		default:
			r = int64(C.shim_get_with(m.number(), k, n, b, size, &info))
		}
		runtime.KeepAlive(m)
		if r == -int64(syscall.EMSGSIZE) {
			room = make([]byte, info.value_size)
			continue
		}
		if r < 0 {
			return entry, m.fail(r)
		}
		entry.Value = room[:r:r]
		entry.describe(&info)
		return entry, nil
	}
}

// Put sets a key's value, present or absent before. If it fails, the old value stays.
func (m *Map) Put(key, value []byte) error {
	if m.isClosed() {
		return ErrClosed
	}
	k, n := bytesOf(key)
	v, size := bytesOf(value)
	return m.result(C.shim_put(m.number(), k, n, v, size))
}

// PutOptions are those of PutWith, Insert, Update and Replace.
type PutOptions struct {
	TTL      time.Duration // 0: that of the map
	Epoch    Epoch         // 0: the current one
	Tags     []Tag         // up to four; the entry is absent once Invalidate was called for one of them
	TagNames []string      // further tags, of the four, as they are when the call begins
}

// tagged returns options with the tags of TagNames as they are now.
func (m *Map) tagged(how PutOptions) (PutOptions, error) {
	if len(how.TagNames) == 0 {
		return how, nil
	}
	tags := append(make([]Tag, 0, len(how.Tags)+len(how.TagNames)), how.Tags...)
	for _, name := range how.TagNames {
		tag, err := m.Tag(textOf(name))
		if err != nil {
			return how, err
		}
		tags = append(tags, tag)
	}
	how.Tags, how.TagNames = tags, nil
	return how, nil
}

func tagsOf(tags []Tag) (*C.tslab_handle, C.size_t) {
	if len(tags) == 0 {
		return nil, 0
	}
	return (*C.tslab_handle)(unsafe.Pointer(&tags[0])), C.size_t(len(tags))
}

// PutWith sets a key's value with options.
func (m *Map) PutWith(key, value []byte, how PutOptions) error {
	return m.put(C.TSLAB_MAP_PUT, key, value, how, 0)
}

// Insert sets the value of an absent key; ErrExists otherwise.
func (m *Map) Insert(key, value []byte, how PutOptions) error {
	return m.put(C.TSLAB_MAP_INSERT, key, value, how, 0)
}

// Update sets the value of a present key; ErrNotFound otherwise.
func (m *Map) Update(key, value []byte, how PutOptions) error {
	return m.put(C.TSLAB_MAP_UPDATE, key, value, how, 0)
}

// Replace sets a value if the present one has this version; ErrChanged otherwise. Version 0: if the key is absent.
func (m *Map) Replace(key []byte, version Version, value []byte, how PutOptions) error {
	return m.put(C.TSLAB_MAP_REPLACE, key, value, how, version)
}

func (m *Map) put(mode C.uint32_t, key, value []byte, how PutOptions, version Version) error {
	if m.isClosed() {
		return ErrClosed
	}
	ttl, err := ttlOf(how.TTL)
	if err == nil {
		how, err = m.tagged(how)
	}
	if err != nil {
		return err
	}
	k, n := bytesOf(key)
	v, size := bytesOf(value)
	tags, count := tagsOf(how.Tags)
	return m.result(C.shim_put_with(m.number(), k, n, v, size, mode, how.Epoch.native(), ttl, C.tslab_handle(version),
		tags, count))
}

// Tag returns a tag as it is now, for puts within an hour, and makes it where it is absent. Ask before the value is
// computed: if the tag is invalidated after that, be it before the put, the entry is absent.
func (m *Map) Tag(tag []byte) (Tag, error) {
	if m.isClosed() {
		return 0, ErrClosed
	}
	var handle C.tslab_handle
	k, n := bytesOf(tag)
	err := m.result(C.shim_tag(m.number(), k, n, &handle))
	return Tag(handle), err
}

// Invalidate makes all entries that have this tag absent at once, in all processes, however many there are.
// ErrNotFound: no entry has it.
func (m *Map) Invalidate(tag []byte) error {
	if m.isClosed() {
		return ErrClosed
	}
	k, n := bytesOf(tag)
	return m.result(C.shim_invalidate(m.number(), k, n))
}

// GetTouch gives an entry another lifetime from now on, and returns it, in one step. ErrNotFound: there is none.
func (m *Map) GetTouch(key []byte, ttl time.Duration) (entry Entry, err error) {
	ms, err := lifetimeOf(ttl)
	if err != nil {
		return entry, err
	}
	return m.entry(key, false, touchEntry, ms)
}

// Touch gives an entry another lifetime from now on, and keeps its value and version. ErrNotFound: there is none.
func (m *Map) Touch(key []byte, ttl time.Duration) error {
	if m.isClosed() {
		return ErrClosed
	}
	ms, err := lifetimeOf(ttl)
	if err != nil {
		return err
	}
	k, n := bytesOf(key)
	return m.result(C.shim_touch(m.number(), k, n, ms))
}

// Delete deletes a key. ErrNotFound: it was absent.
func (m *Map) Delete(key []byte) error {
	return m.DeleteVersion(key, 0)
}

// DeleteVersion deletes a key whose value, or claim, has this version; ErrChanged: it has another one.
func (m *Map) DeleteVersion(key []byte, version Version) error {
	if m.isClosed() {
		return ErrClosed
	}
	k, n := bytesOf(key)
	return m.result(C.shim_delete(m.number(), k, n, C.tslab_handle(version)))
}

// Add adds to a counter and returns the sum; an absent key becomes a counter that begins at 0. ErrOverflow: the sum does
// not fit, and the counter is as it was. ErrInvalid: the value is no counter.
func (m *Map) Add(key []byte, delta int64) (int64, error) {
	return m.AddWith(key, delta, 0, 0)
}

// AddWith is Add with the value from which an absent counter begins, and its lifetime.
func (m *Map) AddWith(key []byte, delta, initial int64, ttl time.Duration) (int64, error) {
	if m.isClosed() {
		return 0, ErrClosed
	}
	ms, err := ttlOf(ttl)
	if err != nil {
		return 0, err
	}
	var sum C.int64_t
	k, n := bytesOf(key)
	err = m.result(C.shim_add(m.number(), k, n, C.int64_t(delta), C.int64_t(initial), ms, &sum))
	return int64(sum), err
}

// SetCounter sets a counter, in place where there is one. ErrInvalid: the value is no counter.
func (m *Map) SetCounter(key []byte, number int64, ttl time.Duration) error {
	if m.isClosed() {
		return ErrClosed
	}
	ms, err := ttlOf(ttl)
	if err != nil {
		return err
	}
	k, n := bytesOf(key)
	return m.result(C.shim_set_counter(m.number(), k, n, C.int64_t(number), ms))
}

// Limit takes `cost` tokens from the key's bucket, which gets `perSecond` tokens a second and holds `burst`. It returns
// 0, or, where there are too few, how long it takes until there are enough; then nothing was taken.
func (m *Map) Limit(key []byte, perSecond float64, burst, cost uint32) (time.Duration, error) {
	if m.isClosed() {
		return 0, ErrClosed
	}
	var retry C.uint64_t
	k, n := bytesOf(key)
	r := C.shim_limit(m.number(), k, n, C.double(perSecond), C.uint32_t(burst), C.uint32_t(cost), &retry)
	runtime.KeepAlive(m)
	if r < 0 {
		return 0, m.fail(int64(r))
	}
	if r == 1 && retry == 0 {
		retry = 1
	}
	return time.Duration(retry) * time.Millisecond, nil
}

// Cursor is where a walk through a map is. The zero value is the beginning. It may be copied and kept.
type Cursor struct{ native C.struct_tslab_map_cursor }

// Next returns the next entry of a walk, in no order; false: there are no more. It may run beside writers: an entry that is
// there all the time is met once.
func (m *Map) Next(cursor *Cursor) (entry Entry, ok bool, err error) {
	room := make([]byte, 2*roomSize)
	var info C.struct_tslab_map_info
	b, size := bytesOf(room)
	for {
		if m.isClosed() {
			return entry, false, ErrClosed
		}
		r := C.shim_next(m.number(), &cursor.native, b, size, &info)
		runtime.KeepAlive(m)
		if r <= 0 {
			if r < 0 {
				err = m.fail(int64(r))
			}
			return entry, false, err
		}
		key := room[:info.key_size:info.key_size]
		if info.flags&C.TSLAB_MAP_KEY_ONLY != 0 {
			entry, err = m.Entry(key, false)
			if err == ErrNotFound {
				continue // it is gone by now
			}
			entry.Key = key
			return entry, err == nil, err
		}
		entry.Key, entry.Value = key, room[info.key_size:][:info.value_size:info.value_size]
		entry.describe(&info)
		return entry, true, nil
	}
}

// Walk calls `each` for all entries until it returns false.
func (m *Map) Walk(each func(Entry) bool) error {
	var cursor Cursor
	for {
		entry, ok, err := m.Next(&cursor)
		if !ok || !each(entry) {
			return err
		}
	}
}

// Count counts the entries by a walk.
func (m *Map) Count() (int, error) {
	if m.isClosed() {
		return 0, ErrClosed
	}
	n := int64(C.tslab_map_count(m.native))
	runtime.KeepAlive(m)
	if n < 0 {
		return 0, m.fail(n)
	}
	return int(n), nil
}

// Expire deletes all entries of an epoch and returns how many there were: those of a tag.
func (m *Map) Expire(epoch Epoch) (int, error) {
	return m.expire(C.uint32_t(epoch))
}

// Clear deletes all entries. Claims and locks that stand become free.
func (m *Map) Clear() (int, error) {
	return m.expire(C.TSLAB_MAP_EPOCH_ALL)
}

func (m *Map) expire(epoch C.uint32_t) (int, error) {
	if m.isClosed() {
		return 0, ErrClosed
	}
	n := int64(C.tslab_map_expire(m.native, epoch))
	runtime.KeepAlive(m)
	if n < 0 {
		return 0, m.fail(n)
	}
	return int(n), nil
}

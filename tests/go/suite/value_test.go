package tslabtest

import (
	"encoding/hex"
	"math"
	"reflect"
	"testing"

	"tslab"
)

type shape struct {
	Name string         `json:"name"`
	Of   map[string]any `json:"of"`
	Raw  []byte         `json:"raw"`
}

// Bytes as bindings/php/README.md has them.
func TestValues(t *testing.T) {
	for _, c := range []struct {
		value any
		bytes string
	}{
		{"text", "74657874"},
		{[]byte{0}, "00"},
		{"", ""},
		{"\xd9\xd9\xf7", "d9d9f743d9d9f7"},
		{nil, "d9d9f7f6"},
		{true, "d9d9f7f5"},
		{false, "d9d9f7f4"},
		{int64(23), "d9d9f717"},
		{int64(24), "d9d9f71818"},
		{int64(-1), "d9d9f720"},
		{int64(math.MinInt64), "d9d9f73b7fffffffffffffff"},
		{int64(math.MaxInt64), "d9d9f71b7fffffffffffffff"},
		{uint64(math.MaxUint64), "d9d9f71bffffffffffffffff"},
		{1.5, "d9d9f7fb3ff8000000000000"},
		{[]int{1, 2}, "d9d9f7d90106655b312c325d"},
		{map[string]string{"a": "b"}, "d9d9f7d90106697b2261223a2262227d"},
	} {
		data := must(tslab.Marshal(c.value))
		same(t, hex.EncodeToString(data), c.bytes)
		if c.value == nil {
			continue
		}
		to := reflect.New(reflect.TypeOf(c.value))
		check(t, tslab.Unmarshal(data, false, to.Interface()))
		if !reflect.DeepEqual(to.Elem().Interface(), c.value) {
			t.Fatalf("%v, not %v", to.Elem(), c.value)
		}
	}
	want := shape{"x", map[string]any{"n": 1.0, "s": []any{"t", nil, true}}, []byte{1, 2}}
	var got shape
	check(t, tslab.Unmarshal(must(tslab.Marshal(want)), false, &got))
	same(t, reflect.DeepEqual(got, want), true)

	// Structures of CBOR's own: {"name": "x", "of": {"n": 1.0 (half), "s": ["t", null, true]}, "raw": h'0102'}
	got = shape{}
	check(t, tslab.Unmarshal(must(hex.DecodeString(
		"d9d9f7a3646e616d656178626f66a2616ef93c00617383"+"6174f6f563726177420102")), false, &got))
	same(t, reflect.DeepEqual(got, want), true)

	var n int8
	if tslab.Unmarshal(must(tslab.Marshal(int64(200))), false, &n) == nil {
		t.Fatal("200 is no int8")
	}
	var counter int
	check(t, tslab.Unmarshal([]byte{0xfe, 255, 255, 255, 255, 255, 255, 255}, true, &counter))
	same(t, counter, -2)
	for _, bad := range []string{"", "ff", "9b7fffffffffffffff", "1b00", "5a00ffffff00", "180100", "61ff",
		"da54534c0143000000", "d90106", "bb7fffffffffffffff00", "a18000"} {
		var to any
		if err := tslab.Unmarshal(append([]byte("\xd9\xd9\xf7"), must(hex.DecodeString(bad))...), false, &to); err == nil {
			t.Fatal(bad, to)
		}
	}
	deep := append([]byte("\xd9\xd9\xf7"), make([]byte, 1<<20)...)
	for i := 3; i < len(deep); i++ {
		deep[i] = 0x81
	}
	var to any
	if tslab.Unmarshal(deep, false, &to) == nil {
		t.Fatal("too deep")
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte("\xd9\xd9\xf7\xa1\x61\x61\x81\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var to any
		var of shape
		_ = tslab.Unmarshal(data, false, &to)
		_ = tslab.Unmarshal(data, false, &of)
	})
}

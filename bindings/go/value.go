package tslab

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"unicode/utf8"
)

// Values in the format that all languages share, as bindings/php/README.md has it: bytes and text plain, numbers of
// counters as 8 bytes, all else as one item of CBOR (RFC 8949) behind the tag for self-described CBOR.

const (
	magic   = "\xd9\xd9\xf7"
	tagJSON = 262 // registered: embedded JSON

	major                                = 5 // bits below it
	cborUint, cborNegative               = 0, 1
	cborBytes, cborText                  = 2, 3
	cborArray, cborMap, cborTag, cborRaw = 4, 5, 6, 7
	cborFalse, cborTrue, cborNull        = 20, 21, 22
	depthMax                             = 100
)

var errValue = errors.New("tslab: the bytes are no value of the shared format, or not of this type")

// Marshal makes the bytes of a value: []byte and strings plain, numbers, bools and nil as CBOR, all else as JSON in it.
func Marshal(value any) ([]byte, error) {
	switch v := value.(type) {
	case []byte:
		return plain(v), nil
	case string:
		return plain([]byte(v)), nil
	case nil:
		return append([]byte(magic), cborRaw<<major|cborNull), nil
	}
	v := reflect.ValueOf(value)
	if _, ok := value.(json.Marshaler); !ok {
		switch v.Kind() {
		case reflect.String:
			return plain([]byte(v.String())), nil
		case reflect.Bool:
			if v.Bool() {
				return append([]byte(magic), cborRaw<<major|cborTrue), nil
			}
			return append([]byte(magic), cborRaw<<major|cborFalse), nil
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			if n := v.Int(); n < 0 {
				return head([]byte(magic), cborNegative, uint64(^n)), nil
			}
			return head([]byte(magic), cborUint, uint64(v.Int())), nil
		case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			return head([]byte(magic), cborUint, v.Uint()), nil
		case reflect.Float32, reflect.Float64:
			return binary.BigEndian.AppendUint64(append([]byte(magic), cborRaw<<major|27), math.Float64bits(v.Float())), nil
		}
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return append(head(head([]byte(magic), cborTag, tagJSON), cborText, uint64(len(text))), text...), nil
}

// plain wraps bytes that begin as CBOR does.
func plain(b []byte) []byte {
	if !isDescribed(b) {
		return b
	}
	return append(head([]byte(magic), cborBytes, uint64(len(b))), b...)
}

func isDescribed(b []byte) bool { return len(b) >= len(magic) && string(b[:len(magic)]) == magic }

// hasJSON returns whether Unmarshal leaves these bytes to package json.
func hasJSON(data []byte) bool {
	if !isDescribed(data) {
		return false
	}
	r := reader{data[len(magic):]}
	_, ok := r.json()
	return ok
}

func head(to []byte, kind byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(to, kind<<major|byte(n))
	case n <= math.MaxUint8:
		return append(to, kind<<major|24, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(to, kind<<major|25), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(to, kind<<major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(to, kind<<major|27), n)
}

// Unmarshal makes a value of bytes; `to` points to a variable of its type, or to an interface. Of an entry that is a
// counter (Entry.Counter) the bytes are its number.
func Unmarshal(data []byte, counter bool, to any) error {
	if counter {
		if len(data) != 8 {
			return errValue
		}
		return assign(int64(binary.LittleEndian.Uint64(data)), to)
	}
	if !isDescribed(data) {
		return assignBytes(data, to)
	}
	r := reader{data[len(magic):]}
	if text, ok := r.json(); ok {
		return json.Unmarshal(text, to)
	}
	item, err := r.item(0)
	if err != nil || len(r.rest) > 0 {
		return errValue
	}
	if b, ok := item.([]byte); ok {
		return assignBytes(b, to)
	}
	return assign(item, to)
}

// assignBytes sets bytes or text, which are one to most languages.
func assignBytes(b []byte, to any) error {
	switch p := to.(type) {
	case *[]byte:
		*p = b
		return nil
	case *string:
		*p = string(b)
		return nil
	case *any:
		*p = b
		return nil
	}
	v := reflect.ValueOf(to).Elem()
	switch {
	case v.Kind() == reflect.String:
		v.SetString(string(b))
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		v.SetBytes(b)
	default:
		return errValue
	}
	return nil
}

func assign(item any, to any) error {
	if p, ok := to.(*any); ok {
		*p = item
		return nil
	}
	if text, ok := item.(string); ok {
		return assignBytes([]byte(text), to)
	}
	v := reflect.ValueOf(to).Elem()
	switch n := item.(type) {
	case int64:
		switch {
		case v.CanInt() && !v.OverflowInt(n):
			v.SetInt(n)
			return nil
		case v.CanUint() && n >= 0 && !v.OverflowUint(uint64(n)):
			v.SetUint(uint64(n))
			return nil
		case v.CanFloat():
			v.SetFloat(float64(n))
			return nil
		}
	case uint64:
		if v.CanUint() && !v.OverflowUint(n) {
			v.SetUint(n)
			return nil
		}
	case float64:
		if v.CanFloat() {
			v.SetFloat(n)
			return nil
		}
	}
	// Structures of CBOR's own come from languages that write them so.
	text, err := json.Marshal(jsonable(item))
	if err != nil {
		return errValue
	}
	return json.Unmarshal(text, to)
}

// jsonable makes keys of CBOR's maps text.
func jsonable(item any) any {
	switch v := item.(type) {
	case []any:
		for i := range v {
			v[i] = jsonable(v[i])
		}
	case map[any]any:
		m := make(map[string]any, len(v))
		for key, value := range v {
			m[fmt.Sprint(key)] = jsonable(value)
		}
		return m
	}
	return item
}

type reader struct{ rest []byte }

func (r *reader) head() (kind, low byte, n uint64, err error) {
	if len(r.rest) == 0 {
		return 0, 0, 0, errValue
	}
	kind, low = r.rest[0]>>major, r.rest[0]&31
	r.rest = r.rest[1:]
	if low < 24 {
		return kind, low, uint64(low), nil
	}
	size := 1 << (low - 24)
	if low > 27 || len(r.rest) < size {
		return 0, 0, 0, errValue
	}
	for _, b := range r.rest[:size] {
		n = n<<8 | uint64(b)
	}
	r.rest = r.rest[size:]
	return kind, low, n, nil
}

// json returns the text of a value that is embedded JSON.
func (r *reader) json() ([]byte, bool) {
	copy := *r
	kind, _, n, err := copy.head()
	if err != nil || kind != cborTag || n != tagJSON {
		return nil, false
	}
	kind, _, n, err = copy.head()
	if err != nil || kind != cborText && kind != cborBytes || n != uint64(len(copy.rest)) {
		return nil, false
	}
	return copy.rest, true
}

func (r *reader) take(n uint64) ([]byte, error) {
	if n > uint64(len(r.rest)) {
		return nil, errValue
	}
	taken := r.rest[:n:n]
	r.rest = r.rest[n:]
	return taken, nil
}

func (r *reader) item(depth int) (any, error) {
	kind, low, n, err := r.head()
	if err != nil || depth > depthMax {
		return nil, errValue
	}
	switch kind {
	case cborUint:
		if n > math.MaxInt64 {
			return n, nil
		}
		return int64(n), nil
	case cborNegative:
		if n > math.MaxInt64 {
			return nil, errValue
		}
		return int64(^n), nil
	case cborBytes:
		return r.take(n)
	case cborText:
		text, err := r.take(n)
		if err == nil && !utf8.Valid(text) {
			err = errValue
		}
		return string(text), err
	case cborArray:
		return r.array(n, depth)
	case cborMap:
		return r.pairs(n, depth)
	case cborTag:
		return nil, errValue // of a serializer of another language
	}
	return simple(low, n)
}

func (r *reader) array(n uint64, depth int) (any, error) {
	if n > uint64(len(r.rest)) { // an item has a byte at least
		return nil, errValue
	}
	items := make([]any, n)
	for i := range items {
		var err error
		if items[i], err = r.item(depth + 1); err != nil {
			return nil, err
		}
	}
	return items, nil
}

func (r *reader) pairs(n uint64, depth int) (any, error) {
	m := map[any]any{}
	for ; n > 0; n-- {
		key, err := r.item(depth + 1)
		if err != nil {
			return nil, err
		}
		switch k := key.(type) {
		case []byte:
			key = string(k)
		case []any, map[any]any:
			return nil, errValue
		}
		if m[key], err = r.item(depth + 1); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func simple(low byte, n uint64) (any, error) {
	switch low {
	case 25:
		return half(uint16(n)), nil
	case 26:
		return float64(math.Float32frombits(uint32(n))), nil
	case 27:
		return math.Float64frombits(n), nil
	case cborFalse, cborTrue:
		return low == cborTrue, nil
	case cborNull:
		return nil, nil
	}
	return nil, errors.New(errValue.Error() + " (simple value " + strconv.Itoa(int(low)) + ")")
}

func half(n uint16) float64 {
	exponent, fraction := int(n>>10&31), float64(n&1023)
	value := math.Ldexp(fraction+1024, exponent-25)
	switch exponent {
	case 0:
		value = math.Ldexp(fraction, -24)
	case 31:
		value = math.Inf(1)
		if fraction != 0 {
			value = math.NaN()
		}
	}
	if n>>15 != 0 {
		return -value
	}
	return value
}

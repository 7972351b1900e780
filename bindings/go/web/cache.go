package web

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"tslab"
)

// Response is a response as the cache has it.
type Response struct {
	Status int         `json:"status"`
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
}

// CacheOptions are those of Cache.
type CacheOptions struct {
	TTL  time.Duration // of a response; 0: that of the cache
	Vary []string      // headers of requests by which responses differ
	// For a request's part of the key beside host, path, query and Vary; nil: none. Without it, requests that have Cookie or
	// Authorization are not answered from the cache.
	Key func(*http.Request) string
}

var errStatus = errors.New("web: a response of another status than 200 is not kept")

// Cache answers GET and HEAD from a cache. Of all requests in all processes that miss, one is passed on; the others wait for
// its response. Only responses of status 200 are kept, without Set-Cookie, without "no-store", "no-cache" or "private" in
// Cache-Control, and with no Vary but the headers that the options name.
func Cache(cache *tslab.Cache[Response], how CacheOptions) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !how.takes(r) {
				next.ServeHTTP(w, r)
				return
			}
			var own *Response
			response, err := cache.GetOrCompute(r.Context(), how.key(r), tslab.PutOptions{TTL: how.TTL},
				func(ctx context.Context) (Response, error) {
					own = record(next, r.WithContext(ctx))
					if own.Status != http.StatusOK {
						return *own, errStatus
					}
					if !how.keeps(own) {
						return Response{}, nil // so that requests for it do not wait for each other
					}
					return *own, nil
				})
			switch {
			case own != nil:
				response = *own
			case err != nil || response.Status == 0: // the pool fails, or the client has gone; or it is not kept
				next.ServeHTTP(w, r)
				return
			}
			response.write(w, r)
		})
	}
}

func (how *CacheOptions) takes(r *http.Request) bool {
	h := r.Header
	if r.Method != http.MethodGet && r.Method != http.MethodHead || h.Get("Range") != "" || h.Get("Upgrade") != "" {
		return false
	}
	if how.Key == nil && (h.Get("Authorization") != "" || h.Get("Cookie") != "") {
		return false
	}
	control := strings.ToLower(h.Get("Cache-Control"))
	return !strings.Contains(control, "no-cache") && !strings.Contains(control, "no-store")
}

// key names a response. Parts are quoted by their lengths: no two requests have one key by chance.
func (how *CacheOptions) key(r *http.Request) string {
	parts := []string{r.Method, r.Host, r.URL.RequestURI()}
	for _, name := range how.Vary {
		parts = append(parts, strings.Join(r.Header.Values(name), ","))
	}
	if how.Key != nil {
		parts = append(parts, how.Key(r))
	}
	return digest(parts)
}

func (how *CacheOptions) keeps(response *Response) bool {
	h := response.Header
	control := strings.ToLower(strings.Join(h.Values("Cache-Control"), ","))
	if h.Get("Set-Cookie") != "" || strings.Contains(control, "no-store") || strings.Contains(control, "no-cache") ||
		strings.Contains(control, "private") {
		return false
	}
	for _, name := range strings.Split(strings.Join(h.Values("Vary"), ","), ",") {
		if name = strings.TrimSpace(name); name != "" && !how.varies(name) {
			return false
		}
	}
	return true
}

func (how *CacheOptions) varies(name string) bool {
	for _, v := range how.Vary {
		if strings.EqualFold(v, name) {
			return true
		}
	}
	return false
}

func (response *Response) write(w http.ResponseWriter, r *http.Request) {
	for name, values := range response.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(response.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(response.Body)
	}
}

// A recorder is a http.ResponseWriter that keeps what it is given.
type recorder struct {
	response Response
	header   http.Header
	body     bytes.Buffer
}

func record(next http.Handler, r *http.Request) *Response {
	to := &recorder{header: http.Header{}}
	next.ServeHTTP(to, r)
	to.WriteHeader(http.StatusOK)
	to.response.Body = to.body.Bytes()
	return &to.response
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.response.Status == 0 && status >= 200 {
		r.response.Status, r.response.Header = status, r.header.Clone()
	}
}

func (r *recorder) Write(data []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if r.response.Header.Get("Content-Type") == "" {
		r.response.Header.Set("Content-Type", http.DetectContentType(data))
	}
	return r.body.Write(data)
}

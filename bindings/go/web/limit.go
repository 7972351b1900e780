// Package web has handlers of net/http on a pool: limits of rates, and a cache of responses. All
// processes share both.
package web

import (
	"net"
	"net/http"
	"strconv"
	"time"

	"tslab"
)

// Address is the address of a request's client, as the connection has it: behind a proxy, take a key of your own.
func Address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// RetryAfter is the value of that header.
func RetryAfter(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// Limit passes requests on while their key has tokens, and answers the others with 429. Where the pool fails, it passes
// them on, and tells onError, unless that is nil.
func Limit(limiter *tslab.Limiter, key func(*http.Request) string, onError func(error)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			retry, err := limiter.Take(key(r))
			if err != nil && onError != nil {
				onError(err)
			}
			if retry > 0 {
				w.Header().Set("Retry-After", RetryAfter(retry))
				http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

package tslabtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tslab"
	"tslab/scsstore"
	"tslab/web"
)

func fetch(t *testing.T, url string, header ...string) (int, string, http.Header) {
	request := must(http.NewRequest("GET", url, nil))
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response := must(http.DefaultClient.Do(request))
	defer response.Body.Close()
	return response.StatusCode, string(must(io.ReadAll(response.Body))), response.Header
}

func TestWebCache(t *testing.T) {
	cache := must(tslab.NewCache[web.Response](open(t), "responses", tslab.MapOptions{TTL: time.Hour}))
	check(t, cache.Clear())
	var served int32
	server := httptest.NewServer(web.Cache(cache, web.CacheOptions{Vary: []string{"Accept-Language"}})(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			atomic.AddInt32(&served, 1)
			time.Sleep(20 * time.Millisecond)
			switch r.URL.Path {
			case "/cookie":
				w.Header().Set("Set-Cookie", "a=b")
			case "/vary":
				w.Header().Set("Vary", "Accept")
			case "/private":
				w.Header().Set("Cache-Control", "private")
			case "/missing":
				w.WriteHeader(404)
			}
			io.WriteString(w, "<p>"+r.URL.Path+r.Header.Get("Accept-Language"))
		})))
	defer server.Close()
	var all sync.WaitGroup
	for i := 0; i < 20; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			status, body, header := fetch(t, server.URL+"/page")
			if status != 200 || body != "<p>/page" || header.Get("Content-Type") != "text/html; charset=utf-8" {
				t.Error(status, body, header)
			}
		}()
	}
	all.Wait()
	same(t, atomic.LoadInt32(&served), 1)
	_, body, _ := fetch(t, server.URL+"/page", "Accept-Language", "de")
	same(t, body, "<p>/pagede")
	same(t, atomic.LoadInt32(&served), 2)
	for _, path := range []string{"/cookie", "/vary", "/private", "/missing"} {
		before := atomic.LoadInt32(&served)
		for i := 0; i < 2; i++ {
			_, body, _ := fetch(t, server.URL+path)
			same(t, body, "<p>"+path)
		}
		same(t, atomic.LoadInt32(&served), before+2)
	}
	fetch(t, server.URL+"/page", "Cookie", "a=b")
	same(t, atomic.LoadInt32(&served), 11)
}

func TestWebLimit(t *testing.T) {
	limiter := must(tslab.NewLimiter(open(t), "web limits", 0.001, 2))
	server := httptest.NewServer(web.Limit(limiter, web.Address, nil)(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "served") })))
	defer server.Close()
	for _, want := range []int{200, 200, 429} {
		status, _, header := fetch(t, server.URL)
		same(t, status, want)
		same(t, header.Get("Retry-After") != "", want == 429)
	}
}

func TestWebSessions(t *testing.T) {
	sessions := must(tslab.NewSessions(open(t), "web sessions", 0))
	var troubles int32
	server := httptest.NewServer(web.Sessions(sessions, web.SessionOptions{Insecure: true}, func(error) {
		atomic.AddInt32(&troubles, 1)
	})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := web.SessionOf(r)
		switch r.URL.Path {
		case "/login":
			check(t, s.Renew())
			check(t, s.Set("user", "alice"))
		case "/logout":
			check(t, s.End())
		case "/beside": // another request changes the session before this one saves
			entry := must(sessions.Entry(must(r.Cookie("session")).Value))
			check(t, sessions.Replace(must(r.Cookie("session")).Value, entry.Version, must(tslab.Marshal(map[string]string{"user": "bob"}))))
			check(t, s.Set("user", "eve"))
		}
		user, _ := s.Get("user").(string)
		io.WriteString(w, user)
	})))
	defer server.Close()
	_, user, header := fetch(t, server.URL, "Cookie", "session=01234567890123456789012345678901")
	same(t, user+header.Get("Set-Cookie"), "")
	_, _, header = fetch(t, server.URL+"/login")
	cookie := strings.SplitN(header.Get("Set-Cookie"), ";", 2)[0]
	for _, want := range []string{"/ alice", "/beside eve", "/ bob", "/login alice", "/ "} {
		path, user, _ := strings.Cut(want, " ")
		_, got, _ := fetch(t, server.URL+path, "Cookie", cookie) // the id that /login ends, too
		same(t, got, user)
	}
	same(t, atomic.LoadInt32(&troubles), 1)
	_, _, header = fetch(t, server.URL+"/login")
	cookie = strings.SplitN(header.Get("Set-Cookie"), ";", 2)[0]
	fetch(t, server.URL+"/logout", "Cookie", cookie)
	_, user, _ = fetch(t, server.URL, "Cookie", cookie)
	same(t, user, "")
}

func TestScsStore(t *testing.T) {
	store := scsstore.New(must(tslab.NewSessions(open(t), "scs", 0)))
	check(t, store.Commit("token", []byte("data"), time.Now().Add(time.Hour)))
	data, found, err := store.Find("token")
	check(t, err)
	same(t, found && string(data) == "data" && len(must(store.All())) == 1, true)
	check(t, store.Commit("token", nil, time.Now()))
	_, found, err = store.Find("token")
	check(t, err)
	same(t, found, false)
	check(t, store.Delete("token"))
}

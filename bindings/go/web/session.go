package web

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http"
	"sync"

	"tslab"
)

const idBytes = 24

// SessionOptions say how requests get their sessions. The zero value is right for sites that are served by TLS alone.
type SessionOptions struct {
	Cookie   string // its name; "": "session"
	Path     string // "": "/"
	Insecure bool   // without TLS, too
	MaxAge   int    // seconds for which browsers keep the cookie; 0: until they are closed
}

// Session is the session of a request: values by name, as JSON has them. Any goroutine of the request may use it.
type Session struct {
	sessions *tslab.Sessions
	how      SessionOptions
	writer   http.ResponseWriter
	request  *http.Request

	mutex   sync.Mutex
	id      string
	version tslab.Version
	values  map[string]any
	changed bool
}

type sessionKey struct{}

// Begin finds the session of a request's cookie, or begins an empty one, which costs nothing until it has a value. An id
// that the pool does not know is never taken from a client.
func Begin(sessions *tslab.Sessions, how SessionOptions, w http.ResponseWriter, r *http.Request) (*Session, error) {
	if how.Cookie == "" {
		how.Cookie = "session"
	}
	if how.Path == "" {
		how.Path = "/"
	}
	s := &Session{sessions: sessions, how: how, writer: w, values: map[string]any{}}
	s.request = r.WithContext(context.WithValue(r.Context(), sessionKey{}, s))
	cookie, err := r.Cookie(how.Cookie)
	if err != nil || len(cookie.Value) != base64.RawURLEncoding.EncodedLen(idBytes) {
		return s, nil
	}
	entry, err := sessions.Entry(cookie.Value)
	if errors.Is(err, tslab.ErrNotFound) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	if tslab.Unmarshal(entry.Value, false, &s.values) != nil || s.values == nil {
		s.values = map[string]any{}
		return s, nil
	}
	s.id, s.version = cookie.Value, entry.Version
	return s, nil
}

// Request returns the request from whose context SessionOf has the session.
func (s *Session) Request() *http.Request { return s.request }

// SessionOf returns the session of a request, or nil.
func SessionOf(r *http.Request) *Session {
	s, _ := r.Context().Value(sessionKey{}).(*Session)
	return s
}

// Get returns a value, or nil.
func (s *Session) Get(name string) any {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.values[name]
}

// Set sets a value. The first one of a new session sets the cookie: do so before the response begins.
func (s *Session) Set(name string, value any) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.values[name] = value
	s.changed = true
	if s.id == "" {
		return s.newID()
	}
	return nil
}

// Delete deletes a value.
func (s *Session) Delete(name string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.values, name)
	s.changed = true
}

// Renew gives the session another id, as a login must, and ends the old one.
func (s *Session) Renew() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.id != "" {
		if err := s.sessions.Delete(s.id); err != nil {
			return err
		}
	}
	s.version, s.changed = 0, true
	return s.newID()
}

// End ends the session, for all processes at once.
func (s *Session) End() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	id := s.id
	s.id, s.version, s.values, s.changed = "", 0, map[string]any{}, false
	if id == "" {
		return nil
	}
	s.cookie("", -1)
	return s.sessions.Delete(id)
}

// Save saves what has changed, or begins the lifetime anew. ErrChanged: another request changed or ended the session
// meanwhile, and this one's change is refused.
func (s *Session) Save() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.id == "" {
		return nil
	}
	if !s.changed {
		if err := s.sessions.Touch(s.id); err != nil && !errors.Is(err, tslab.ErrNotFound) {
			return err
		}
		return nil
	}
	data, err := tslab.Marshal(s.values)
	if err != nil {
		return err
	}
	s.changed = false
	return s.sessions.Replace(s.id, s.version, data)
}

func (s *Session) newID() error {
	var id [idBytes]byte
	if _, err := rand.Read(id[:]); err != nil {
		return err
	}
	s.id = base64.RawURLEncoding.EncodeToString(id[:])
	s.cookie(s.id, s.how.MaxAge)
	return nil
}

func (s *Session) cookie(value string, age int) {
	http.SetCookie(s.writer, &http.Cookie{Name: s.how.Cookie, Value: value, Path: s.how.Path, MaxAge: age, HttpOnly: true,
		Secure: !s.how.Insecure, SameSite: http.SameSiteLaxMode})
}

// Sessions gives each request its session, which SessionOf returns, and saves it when the request is done. Errors go to
// onError, unless that is nil; a request that cannot reach the pool is answered with 503.
func Sessions(sessions *tslab.Sessions, how SessionOptions, onError func(error)) func(http.Handler) http.Handler {
	tell := func(err error) {
		if err != nil && onError != nil {
			onError(err)
		}
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			session, err := Begin(sessions, how, w, r)
			if err != nil {
				tell(err)
				http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
				return
			}
			next.ServeHTTP(w, session.request)
			tell(session.Save())
		})
	}
}

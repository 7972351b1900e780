// Package scsstore keeps the sessions of github.com/alexedwards/scs in a pool, where all processes of a host share them.
//
//	manager := scs.New()
//	manager.Store = scsstore.New(sessions)
//
// It has the methods of scs.Store and scs.IterableStore, and does not need that module.
package scsstore

import (
	"errors"
	"time"

	"tslab"
)

// Store is a store of scs.
type Store struct{ sessions *tslab.Sessions }

// New makes a store. The lifetimes are scs's.
func New(sessions *tslab.Sessions) *Store { return &Store{sessions} }

// Find returns a session's data.
func (s *Store) Find(token string) ([]byte, bool, error) {
	data, err := s.sessions.Get(token)
	if errors.Is(err, tslab.ErrNotFound) {
		return nil, false, nil
	}
	return data, err == nil, err
}

// Commit sets a session. One whose time is over is deleted.
func (s *Store) Commit(token string, data []byte, expiry time.Time) error {
	left := time.Until(expiry)
	if left <= 0 {
		return s.sessions.Delete(token)
	}
	return s.sessions.SetFor(token, data, left)
}

// Delete ends a session.
func (s *Store) Delete(token string) error { return s.sessions.Delete(token) }

// All returns all sessions.
func (s *Store) All() (map[string][]byte, error) {
	all := map[string][]byte{}
	err := s.sessions.All(func(id string, data []byte) bool { all[id] = data; return true })
	return all, err
}

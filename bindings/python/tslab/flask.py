"""Flask's sessions in a pool, and a cache for Flask-Caching: see cache().

    app.session_interface = tslab.flask.SessionInterface(lambda: SessionStore(tslab.open('web')))

The browser gets a random id; the contents of the session stay in the pool. A session that is `permanent` lives for
PERMANENT_SESSION_LIFETIME there, too, or for the `lifetime` that the store was given if that is shorter. Each process
makes the store for itself, when it first needs it. Cookies have the attributes that Flask is configured for (SESSION_COOKIE_SECURE and so on).

If the pool does not take a change, because it is too large or the pool is full, that is logged as an error of the
application; the session stays as it was, and the request is answered. The same happens if another request has changed
or ended the session meanwhile: the other request's change counts, and this one's is lost, with the messages that
flash() has added; messages that it took are shown again. A logout that only takes the user out of the session is such a
change. A logout that leaves nothing in the session (`session.clear()`) counts in any case, and so does regenerate().
While the pool cannot be opened, requests are answered without a session, and that is logged.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional

from flask import Flask, Request, Response
from flask.json.tag import TaggedJSONSerializer
from flask.sessions import SecureCookieSession, SessionMixin
from flask.sessions import SessionInterface as FlaskSessionInterface

from tslab._wait import is_own
from tslab.errors import ChangedError, Error, is_damaged
from tslab.lock import Lock
from tslab.sessions import SessionStore, merged

if TYPE_CHECKING:
    from tslab.cachelib import Cache

_ID = re.compile(r'[A-Za-z0-9_-]{43}')     # 256 random bits
_TRIES_MAX = 20
_USER = '_tslab_user'       # the key of the user among the contents as they are stored


def cache(app: Flask, config: Dict[str, Any], args: List[Any], options: Dict[str, Any]) -> Cache:
    """For Flask-Caching, which calls it. The options go to tslab.cachelib.Cache.

        app.config.update(CACHE_TYPE='tslab.flask.cache', CACHE_OPTIONS={'pool': 'web', 'evict': 'sieve'})
    """
    from tslab.cachelib import Cache    # noqa: PLC0415 (sessions need no cachelib)
    return Cache(*args, **{name: value for name, value in options.items() if name != 'ignore_delete_many_errors'})


class Session(SecureCookieSession):
    """A session, which knows whether it was read or changed. `id` is None until it is first saved. If the session could
    not be read, it is not `available`: changes of it are lost."""

    def __init__(self, initial: Any = None, id: Optional[str] = None, available: bool = True) -> None:  # noqa: A002
        super().__init__(initial)
        self.id, self.new, self.available = id, id is None, available
        self.version = 0                            # the version of the value that it was read from; 0: none
        self.saved: Optional[bytes] = None          # the value that it was last saved as
        self.is_leaving = False                     # its id: it gets another one when it is saved, see regenerate()
        self.read: bytes = b'{}'                    # the value that it was read from
        self.user: Optional[str] = None             # whose session it is, see regenerate(); kept with its contents
        self.is_assigned = True                     # to that user, by its id
        self.lock: Optional[Lock] = None

    def clear(self) -> None:
        """Also of the user that was read with it; one that it is given by regenerate() stays."""
        super().clear()
        if self.is_assigned:
            self.user = None


def _as_user(found: Any) -> Optional[str]:
    """Another program can put anything there."""
    return found if isinstance(found, str) else None


def _with_user(session: Session) -> Dict[str, Any]:
    """Keys of other types are text in JSON, and cannot be sorted beside the user's."""
    return {**{key if isinstance(key, str) else str(key): value for key, value in session.items()}, _USER: session.user}


class SessionInterface(FlaskSessionInterface):
    """`make_store` is called once in each process. `conflict` says what becomes of two requests that change a session at once:
    'fail' (the second one's change is lost, and that is logged), 'merge' (each key is as the request left it that changed this
    key; a logout counts in any case), or 'lock' (requests of one session on this host wait for each other, for `lock_seconds`
    at most; after that they fail as above)."""

    serializer = TaggedJSONSerializer()

    def __init__(self, make_store: Callable[[], SessionStore], *, conflict: str = 'fail', lock_seconds: float = 30) -> None:
        if conflict not in ('fail', 'merge', 'lock'):
            raise ValueError(f'conflict is "fail", "merge" or "lock", not {conflict!r}')
        self._make_store, self._conflict, self._lock_seconds = make_store, conflict, lock_seconds
        self._store: Optional[SessionStore] = None
        self._pid = 0

    @property
    def store(self) -> SessionStore:
        """A forked child makes its own: a parent that never served needs none."""
        if self._store is None or not is_own(self._pid):
            self._store, self._pid = self._make_store(), os.getpid()
        return self._store

    def open_session(self, app: Flask, request: Request) -> Session:
        id = request.cookies.get(self.get_cookie_name(app), '')    # noqa: A001
        lock = self._lock(app, id) if self._conflict == 'lock' and _ID.fullmatch(id) else None
        session = self._read(app, id)
        session.lock = lock
        if lock:        # after an error of an after_request() function Flask does not save
            weakref.finalize(session, lock.release).atexit = False
        return session

    def _lock(self, app: Flask, id: str) -> Optional[Lock]:     # noqa: A002
        try:
            lock = self.store.lock(id, self._lock_seconds)
            if lock.acquire(timeout=self._lock_seconds):
                return lock
            app.logger.error('a session is locked by another request for more than %g s, and is read all the same',
                             self._lock_seconds)
        except Error as e:
            app.logger.error('a session cannot be locked, and is read all the same: %s', e)
        return None

    def _read(self, app: Flask, id: str) -> Session:            # noqa: A002
        try:
            found = self.store.get_version(id) if _ID.fullmatch(id) else None
        except Error as e:
            damaged = is_damaged(e)
            app.logger.error('a session cannot be read, and %s: %s',
                             'begins anew' if damaged else 'the request is answered without it', e)
            return Session(available=damaged)
        if found is None:
            return Session()        # an id that we did not give out is not taken over
        data, version = found
        try:
            contents = self._contents(data)
            user = _as_user(contents.pop(_USER, None))
            session = Session(contents, id)
            session.version, session.read, session.user = version, data, user
            return session
        except Exception:   # noqa: BLE001 (another program can put any bytes there, and any JSON)
            app.logger.error('a session cannot be read, and begins anew: its %d bytes are not those of one', len(data))
            return Session()

    def _contents(self, data: bytes) -> Dict[str, Any]:
        """Raises an exception of any class if the bytes are not those of a session."""
        return dict(self.serializer.loads(data.decode()))

    def save_session(self, app: Flask, session: SessionMixin, response: Response) -> None:
        assert isinstance(session, Session)
        try:
            self._save_or_end(app, session, response)
        finally:
            if session.lock:
                session.lock.release()

    def _save_or_end(self, app: Flask, session: Session, response: Response) -> None:
        if session.accessed:
            response.vary.add('Cookie')
        if not session.available:
            return
        if not session:
            if session.modified:
                self._delete(app, session.id)
                session.id, session.is_leaving, session.version, session.saved = None, False, 0, None
                response.delete_cookie(self.get_cookie_name(app), **self._cookie(app))
                response.vary.add('Cookie')
        elif self._save(app, session) and self.should_set_cookie(app, session):
            response.set_cookie(self.get_cookie_name(app), session.id or '',
                                expires=self.get_expiration_time(app, session), **self._cookie(app))
            response.vary.add('Cookie')

    def regenerate(self, session: SessionMixin, user: Optional[str] = None) -> None:
        """Gives a session another id, as is right when a user logs in: the old id is then of no use to somebody who
        knew it. This is done when the request ends: until then `session.id` is the old one, and is what end_sessions(but=)
        takes, too. If it fails, the old session is there as it was. If another request has ended the session meanwhile, or
        given it another id, the new id is not kept. With a `user` it is that user's
        session then: see SessionStore.assign(). Without one it stays the session of the user that it had."""
        assert isinstance(session, Session)
        session.user, session.is_assigned = user or session.user, False
        session.is_leaving, session.modified = True, True

    def _save(self, app: Flask, session: Session) -> bool:
        """Whether the pool has the session as it is."""
        former = session.id if session.is_leaving else None
        id = secrets.token_urlsafe(32) if former or not session.id else session.id      # noqa: A001
        try:
            lifetime = self.store.lifetime_of(app.permanent_session_lifetime) if session.permanent else None
            if not session.modified:
                return self.store.touch(id, lifetime)
            data = self._replace(id, session, lifetime)
            self._assign(app, id, session)
        except Error as e:
            app.logger.error('a session could not be saved, and stays as it was: %s', e)
            return False
        session.id, session.saved, session.read, session.is_leaving = id, data, data, False
        if self._delete(app, former) is False:      # one request ends a session
            app.logger.error('a session was ended by another request before it got a new id, and stays ended')
            self._delete(app, id)
            return False
        return True

    def _assign(self, app: Flask, id: str, session: Session) -> None:       # noqa: A002
        """Gives the session, which is saved with a new id, to its user. Where that fails, nobody has that id."""
        if session.user is None or session.is_assigned:
            return
        try:
            self.store.assign(id, session.user)
            session.is_assigned = True
        except BaseException:
            self._delete(app, id)
            raise

    def _replace(self, id: str, session: Session, lifetime: Optional[float]) -> bytes:       # noqa: A002
        for _ in range(_TRIES_MAX):
            data = self.serializer.dumps(_with_user(session) if session.user else dict(session)).encode()
            try:
                self.store.replace(id, self._version(session), data, lifetime)
                return data
            except ChangedError:
                found = self.store.get_version(id) if self._conflict == 'merge' else None
                if found is None:           # also where it was ended
                    raise
                try:
                    base, theirs = self._contents(session.read), self._contents(found[0])
                except Exception:   # noqa: BLE001 (see _read())
                    raise ChangedError(errno.EAGAIN, 'the session has bytes that are not those of one') from None
                mine: Mapping[str, Any] = _with_user(session) if session.user else session
                contents = merged(base, mine, theirs)
                session.clear()
                session.user = _as_user(contents.pop(_USER, None))
                session.update(contents)
                session.read, session.version = found
                session.saved = None
        raise ChangedError(errno.EAGAIN, 'the session was changed again and again')

    def _version(self, session: Session) -> int:
        """The version that a change of the session replaces: that which it was read from, or was saved as since."""
        if session.is_leaving:
            return 0
        if session.saved is None or session.id is None:
            return session.version
        found = self.store.get_version(session.id)
        if found is None or found[0] != session.saved:
            raise ChangedError(errno.EAGAIN, 'the session was changed meanwhile')
        return found[1]

    def _delete(self, app: Flask, id: Optional[str]) -> Optional[bool]:      # noqa: A002
        """Whether it was there; None where that is not known."""
        try:
            return None if id is None else self.store.delete(id)
        except Error as e:
            app.logger.error('a session could not be deleted: %s', e)
            return None

    def _cookie(self, app: Flask) -> Dict[str, Any]:
        attributes = {'domain': self.get_cookie_domain(app), 'path': self.get_cookie_path(app),
                      'secure': self.get_cookie_secure(app), 'httponly': self.get_cookie_httponly(app),
                      'samesite': self.get_cookie_samesite(app)}
        if hasattr(self, 'get_cookie_partitioned'):         # Flask 3.1
            attributes['partitioned'] = self.get_cookie_partitioned(app)
        return attributes

"""Flask's sessions in a pool.

    app.session_interface = tslab.flask.SessionInterface(lambda: SessionStore(tslab.open('web')))

The browser gets a random id; what the session holds stays in the pool. The store is made by each process for itself,
when it first needs it.
"""

from __future__ import annotations

import os
import re
import secrets
from typing import Callable, Optional

from flask.json.tag import TaggedJSONSerializer
from flask.sessions import SessionInterface as FlaskSessionInterface
from flask.sessions import SessionMixin
from werkzeug.datastructures import CallbackDict

from tslab.sessions import SessionStore

_ID = re.compile(r'[A-Za-z0-9_-]{43}')     # 256 random bits


class Session(CallbackDict, SessionMixin):
    """A session; knows whether it was changed."""

    def __init__(self, initial, id: Optional[str]) -> None:    # noqa: A002
        def on_update(session) -> None:
            session.modified = True

        super().__init__(initial, on_update)
        self.id, self.new, self.modified = id, id is None, False


class SessionInterface(FlaskSessionInterface):
    serializer = TaggedJSONSerializer()

    def __init__(self, make_store: Callable[[], SessionStore]) -> None:
        self._make_store, self._store, self._pid = make_store, None, 0

    @property
    def store(self) -> SessionStore:
        """A forked child makes its own: a parent that never served needs none."""
        if self._store is None or self._pid != os.getpid():
            self._store, self._pid = self._make_store(), os.getpid()
        return self._store

    def open_session(self, app, request) -> Session:
        id = request.cookies.get(self.get_cookie_name(app), '')    # noqa: A001
        data = self.store.get(id) if _ID.fullmatch(id) else None
        if data is None:
            return Session(None, None)      # an id that we did not give out is not taken over
        return Session(self.serializer.loads(data.decode()), id)

    def save_session(self, app, session, response) -> None:
        if session.accessed:
            response.vary.add('Cookie')
        if not session:
            self._end(app, session, response)
        elif session.modified:
            session.id = session.id or secrets.token_urlsafe(32)
            self.store.set(session.id, self.serializer.dumps(dict(session)).encode())
            self._set_cookie(app, session, response)
        elif self.store.touch(session.id) and self.should_set_cookie(app, session):
            self._set_cookie(app, session, response)

    def _end(self, app, session, response) -> None:
        if session.id and session.modified:
            self.store.delete(session.id)
            response.delete_cookie(self.get_cookie_name(app), domain=self.get_cookie_domain(app),
                                   path=self.get_cookie_path(app))

    def _set_cookie(self, app, session, response) -> None:
        response.set_cookie(self.get_cookie_name(app), session.id, expires=self.get_expiration_time(app, session),
                            httponly=self.get_cookie_httponly(app), domain=self.get_cookie_domain(app),
                            path=self.get_cookie_path(app), secure=self.get_cookie_secure(app),
                            samesite=self.get_cookie_samesite(app))

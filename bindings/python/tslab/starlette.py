"""Sessions for Starlette and FastAPI in a pool, with the arguments of Starlette's own middleware:

    app.add_middleware(tslab.starlette.SessionMiddleware, make_store=lambda: tslab.SessionStore(tslab.open('web')))

`request.session` is a dict of values that JSON has. The browser gets a random id; the contents stay in the pool. Each process
makes the store when it first needs it. `max_age` is the lifetime of cookie and session; None: a cookie for as long as the
browser is open, and the lifetime of the store.

If two requests change a session at once, each key is as the request left it that changed this key (`conflict='merge'`), or
the second one's change is lost, and that is logged (`'fail'`). `request.session.regenerate()` gives a session another id,
as is right when a user logs in. A change that the pool does not take is logged, and the request is answered.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
from typing import Any, Callable, Dict, List, Optional, Tuple

from tslab.errors import ChangedError, Error
from tslab.sessions import SessionStore, merged

_ID = re.compile(r'[A-Za-z0-9_-]{43}')     # 256 random bits
_TRIES_MAX = 20

_log = logging.getLogger('tslab')


class Session(Dict[str, Any]):
    """A session, and the bytes that it was read from. `id` is None until it is first saved."""

    def __init__(self, data: bytes = b'{}', id: Optional[str] = None, version: int = 0) -> None:     # noqa: A002
        super().__init__(_loads(data))
        self.data, self.id, self.version = data, id, version
        self.is_leaving = False

    def regenerate(self) -> None:
        """Gives the session another id when the request ends; the old one, which `id` is until then, is of no use from
        then on."""
        self.is_leaving = True


def _loads(data: bytes) -> Dict[str, Any]:
    """{} where another program has put other bytes there."""
    try:
        return dict(json.loads(data))
    except (ValueError, TypeError, RecursionError):
        return {}


class SessionMiddleware:
    def __init__(self, app: Any, make_store: Callable[[], SessionStore], session_cookie: str = 'session',
                 max_age: Optional[int] = 14 * 24 * 3600, path: str = '/', same_site: str = 'lax', https_only: bool = False,
                 domain: Optional[str] = None, conflict: str = 'merge') -> None:
        if conflict not in ('merge', 'fail'):
            raise ValueError(f'conflict is "merge" or "fail", not {conflict!r}')
        self.app, self.cookie, self.max_age, self.path, self.conflict = app, session_cookie, max_age, path, conflict
        self._make_store, self._store = make_store, None    # type: Callable[[], SessionStore], Optional[SessionStore]
        self._attributes = f'path={path}; httponly; samesite={same_site}'
        self._attributes += '; secure' * https_only + (f'; domain={domain}' if domain else '')

    @property
    def store(self) -> SessionStore:
        if self._store is None:
            self._store = self._make_store()
        return self._store

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope['type'] not in ('http', 'websocket'):
            await self.app(scope, receive, send)
            return
        session = scope['session'] = await self._run(self._load, _cookie(scope, self.cookie))

        async def send_with_cookie(message: Any) -> None:
            if message['type'] == 'http.response.start':
                cookie = await self._run(self._save, session)
                if cookie:
                    headers: List[Tuple[bytes, bytes]] = [*message.get('headers', []), (b'set-cookie', cookie.encode())]
                    message = {**message, 'headers': headers}
            await send(message)

        await self.app(scope, receive, send_with_cookie)

    async def _run(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """An engine is asked over the network. A call of a pool takes microseconds."""
        if self._store is not None and self._store._behind is None:
            return call(*arguments)
        return await asyncio.get_running_loop().run_in_executor(None, call, *arguments)

    def _load(self, id: str) -> Session:        # noqa: A002
        try:
            found = self.store.get_version(id) if _ID.fullmatch(id) else None
        except Error as e:
            _log.error('a session cannot be read, and the request is answered without it: %s', e)
            found = None
        return Session() if found is None else Session(found[0], id, found[1])     # an unknown id is not taken over

    def _save(self, session: Session) -> str:
        """The cookie that is to be set, if any."""
        try:
            return self._saved(session)
        except Error as e:
            _log.error('a session could not be saved, and stays as it was: %s', e)
            return ''

    def _saved(self, session: Session) -> str:
        if not session:
            self._delete(session.id)
            return f'{self.cookie}=null; expires=Thu, 01 Jan 1970 00:00:00 GMT; {self._attributes}' if session.id else ''
        data = json.dumps(session).encode()
        lifetime = None if self.max_age is None else self.store.lifetime_of(self.max_age)
        former = session.id if session.is_leaving else None
        if session.id and not former and data == session.data:
            return self._set_cookie(session.id) if self.store.touch(session.id, lifetime) else ''
        id = secrets.token_urlsafe(32) if former or not session.id else session.id      # noqa: A001
        for _ in range(_TRIES_MAX):
            try:
                self.store.replace(id, 0 if former else session.version, data, lifetime)
                break
            except ChangedError:
                found = self.store.get_version(id)
                if found is None or self.conflict == 'fail':        # a logout counts
                    raise
                data = json.dumps(merged(_loads(session.data), session, _loads(found[0]))).encode()
                session.version = found[1]
        if former and self._delete(former) is False:
            self._delete(id)            # another request has ended it: it stays ended
            return ''
        return self._set_cookie(id)

    def _delete(self, id: Optional[str]) -> Optional[bool]:      # noqa: A002
        """Whether it was there; None where that is not known: no browser has its id from now on."""
        try:
            return self.store.delete(id) if id else None
        except Error as e:
            _log.error('a session could not be deleted, and stays until its end: %s', e)
            return None

    def _set_cookie(self, id: str) -> str:      # noqa: A002
        age = '' if self.max_age is None else f'; Max-Age={self.max_age}'
        return f'{self.cookie}={id}{age}; {self._attributes}'


def _cookie(scope: Any, name: str) -> str:
    """As browsers send them. http.cookies stops at another program's cookie that has JSON, spaces, or other letters."""
    found = ''
    for header, value in scope['headers']:
        for part in value.decode('latin-1').split(';') if header == b'cookie' else ():
            key, is_named, text = part.partition('=')       # a cookie without a name has no =
            if is_named and key.strip() == name:
                found = text.strip().strip('"')
    return found

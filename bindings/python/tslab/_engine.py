"""Asks a client of Redis or Valkey for values, and finds out which server answered.

A connection may lead to a server that another one has replaced: by an address that moved, or in the middle of a failover.
The answers of the old server are old, and tslab-near does not hear when they change. So each connection is asked once for
the run id and the role of the server at its end, and an answer becomes a copy only if tslab-near hears that server.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib
import inspect
import math
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Type

from tslab.errors import EngineError

SECONDS = 0.5       # a client that is made from a URL waits so long for an answer
_LONG_SECONDS = 0.1     # a question that took so long and had no answer is not asked again at once
_AGAIN_SECONDS = 1.0

_SCHEMES = 'redis://', 'rediss://', 'unix://', 'valkey://', 'valkeys://'
_REDIRECTIONS = 'MOVED ', 'ASK ', 'TRYAGAIN', 'CLUSTERDOWN'


class Answers(NamedTuple):
    names: List[bytes]
    replies: List[Any]              # for each name its value and PTTL; an exception in place of one that was refused
    server: Optional[bytes]         # the run id; None: not known
    connection: Any = None          # by which it was asked, which others may be using by now


def is_a(trouble: Any, *names: str) -> bool:
    """Whether an exception is of one of these classes, which several packages have."""
    return isinstance(trouble, Exception) and any(one.__name__ in names for one in type(trouble).__mro__)


def _leads_elsewhere(reply: Any) -> bool:
    """Whether a server of a cluster refuses, as another one has the key. Some clients leave the word out of the text."""
    return is_a(reply, 'MovedError', 'AskError', 'TryAgainError', 'ClusterDownError', 'SlotNotCoveredError') or \
        isinstance(reply, Exception) and str(reply).startswith(_REDIRECTIONS)


def client_of(engine: Any, package: str = 'redis') -> Any:
    """A client, or one of redis-py's `package` that is made from a URL. It does not ask again: a question takes SECONDS at
    most."""
    if not isinstance(engine, str):
        return engine
    if not engine.startswith(_SCHEMES):
        raise ValueError(f'an engine is a client, or a URL that begins with redis://, rediss:// or unix://: {engine!r}')
    clients, backoff, retry = map(importlib.import_module, (package, 'redis.backoff', f'{package}.retry'))
    never = retry.Retry(backoff.NoBackoff(), 0)
    url = engine.replace('valkey', 'redis', 1) if engine.startswith('valkey') else engine
    limits = {'socket_timeout': SECONDS}
    if not url.startswith('unix://'):       # redis-py 4 takes none for connecting there
        limits['socket_connect_timeout'] = SECONDS
    return clients.Redis.from_url(url, **limits, retry=never)


class _NewConnection:
    """Notes the commands that a client sends on a new connection. All else that is done with it does nothing."""

    def __init__(self) -> None:
        self.commands: List[Any] = []

    def send_command(self, *command: Any, **_: Any) -> None:
        self.commands.append(command[0] if command else None)

    @staticmethod
    def read_response(*_: Any, **__: Any) -> bytes:
        return b'OK'

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


def _sends_readonly(engine: Any) -> bool:
    """Whether the connections of a cluster's client are in the mode without which no replica answers GET, whatever the option
    is called that asks for it."""
    connection = _NewConnection()
    with contextlib.suppress(Exception):        # a function of the user may want more of a connection
        getattr(engine, 'on_connect', lambda _: None)(connection)
    return any(command in ('READONLY', b'READONLY') for command in connection.commands)


def check(engine: Any, is_async: bool = False) -> None:
    """Refuses clients whose answers are not those of a primary, or no bytes."""
    if inspect.iscoroutinefunction(getattr(engine, 'execute_command', None)) != is_async:
        raise TypeError('the engine is none of redis.asyncio: take NearCache' if is_async else
                        'the engine is one of redis.asyncio: take AsyncNearCache, or redis.Redis in threads')
    if is_async and hasattr(engine, 'get_node_from_key'):
        raise TypeError('the engine is a cluster of redis.asyncio: take NearCache in threads')
    pool = getattr(engine, 'connection_pool', None)
    if _sends_readonly(engine) or getattr(pool, 'is_master', True) is False:
        raise ValueError('the engine reads from replicas, which may answer with a value from before a change; '
                         'use one that does not')
    encoder = engine.get_encoder() if hasattr(engine, 'get_encoder') else None
    if getattr(encoder, 'decode_responses', False):
        raise ValueError('the engine has decode_responses; use one that returns bytes')


def _take_connection(pool: Any, takes: Dict[Type[Any], Tuple[str, ...]] = {}) -> Any:     # noqa: B006 (kept on purpose)
    """redis-py before 5.3 wants the name of a command, and later ones warn of it. A coroutine with asyncio."""
    kind = type(pool)
    if kind not in takes:
        parameters = list(inspect.signature(pool.get_connection).parameters.values())
        takes[kind] = ('GET',) if parameters and parameters[0].default is inspect.Parameter.empty and \
            parameters[0].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD else ()
    return pool.get_connection(*takes[kind])


def _socket(connection: Any) -> Any:
    return getattr(getattr(connection, '_conn', connection), '_sock', None) or getattr(connection, '_writer', None)


def _field(text: Any, name: bytes) -> Optional[bytes]:
    for line in text.splitlines() if isinstance(text, bytes) else ():
        if line.startswith(name + b':'):
            return bytes(line[len(name) + 1:])
    return None


def _about_server(connection: Any) -> Any:
    return connection.pack_commands([('INFO', 'server'), ('INFO', 'replication')])


def _facts(texts: Sequence[Any]) -> Tuple[Optional[bytes], bool]:
    role = _field(texts[1], b'role')
    if texts[1] is not None and role is None:
        raise ConnectionError('the connection has answers to earlier questions')       # a task was cancelled
    return _field(texts[0], b'run_id'), role == b'slave'


def _ask_server(connection: Any) -> Tuple[Optional[bytes], bool]:
    connection.send_packed_command(_about_server(connection))
    texts = []
    for _ in range(2):
        try:
            texts.append(connection.read_response())
        except Exception as e:      # noqa: BLE001 (of the client's own classes)
            if not is_a(e, 'ResponseError'):
                raise
            texts.append(None)      # NOPERM: its answers are good for the caller alone
    return _facts(texts)


def _known_server(connection: Any) -> Any:
    """None: the server at the end of the connection is to be asked."""
    known = getattr(connection, '_tslab_server', None)
    return None if known is None or known[0] is None or known[0] is not _socket(connection) else known


def _replica() -> EngineError:
    return EngineError(errno.EHOSTDOWN, 'the engine asked a replica, whose values may be old: name the primary')


def _server_of(connection: Any) -> Optional[bytes]:
    """The run id of the server at the end of a connection, which is asked for it once."""
    known = _known_server(connection)
    if known is None:
        connection._tslab_server = known = (_socket(connection), *_ask_server(connection))
    if known[2]:
        connection.disconnect()     # it may be the primary at the next question
        raise _replica()
    run_id: Optional[bytes] = known[1]
    return run_id


def _pipeline(client: Any, names: Sequence[bytes], read: str) -> Any:
    pipeline = client.pipeline(transaction=False)
    for name in names:
        getattr(pipeline, read)(name)
        pipeline.pttl(name)
    return pipeline


def _ask_one(client: Any, names: Sequence[bytes], read: str) -> Answers:
    """Asks one server. The client's own pipeline does it, on a connection whose other end is known."""
    pipeline = _pipeline(client, names, read)
    server = before = connection = None
    pool = getattr(client, 'connection_pool', None)
    if pool is not None:
        connection = pipeline.connection = _take_connection(pool)
        try:
            server = _server_of(connection)
        except BaseException as e:
            connection.disconnect()
            if not _was_closed(e):
                pipeline.reset()
                raise
        before = _socket(connection)
    replies = list(pipeline.execute(raise_on_error=False))
    if pool is not None and (before is None or _socket(connection) is not before):
        server = None                   # it has connected anew
    return Answers(list(names), replies, server, connection)


def _was_closed(trouble: BaseException) -> bool:
    """Whether the connection may be one that the server closed long ago: the pipeline connects anew."""
    return is_a(trouble, 'ConnectionError') and not is_a(trouble, 'TimeoutError', 'AuthenticationError', 'EngineError')


async def _server_of_async(connection: Any) -> Optional[bytes]:
    known = _known_server(connection)
    if known is None:
        await connection.send_packed_command(_about_server(connection))
        texts = []
        for _ in range(2):
            try:
                texts.append(await connection.read_response())
            except Exception as e:      # noqa: BLE001 (as above)
                if not is_a(e, 'ResponseError'):
                    raise
                texts.append(None)
        connection._tslab_server = known = (_socket(connection), *_facts(texts))
    if known[2]:
        raise _replica()
    run_id: Optional[bytes] = known[1]
    return run_id


async def _run_async(pipeline: Any, connection: Any) -> List[Any]:
    """The replies of a pipeline that has a connection. Where a task is cancelled, an answer may come later, which the next
    question by this connection would get; not all clients end it, and some end it too late. So the pipeline gives it back
    only behind that."""
    pipeline.reset = _stay
    try:
        return list(await pipeline.execute(raise_on_error=False))
    except BaseException as e:
        await _end(connection)
        if isinstance(e.__context__, asyncio.CancelledError):       # redis-py 4.3.6 fails as it is cancelled
            raise e.__context__ from None
        raise
    finally:
        del pipeline.reset
        await pipeline.reset()


async def _end(connection: Any) -> None:
    """Disconnects, and does not wait for a server that takes nothing until all is sent."""
    writer = getattr(connection, '_writer', None)
    if writer is not None:
        writer.transport.abort()
    await connection.disconnect()


async def _stay() -> None:
    """In place of reset(), with which a pipeline gives its connection back."""


async def _connected(client: Any, pipeline: Any) -> Tuple[Any, Optional[bytes]]:
    """Gives the pipeline a connection. Returns that and the server at its end, if it is known."""
    connection = pipeline.connection = await _take_connection(client.connection_pool)
    try:
        return connection, await _server_of_async(connection)
    except BaseException as e:
        await _end(connection)
        if not _was_closed(e):
            await pipeline.reset()
            raise
    return connection, None


async def _ask_one_async(client: Any, names: Sequence[bytes], read: str) -> Answers:
    """As _ask_one(), for clients of redis.asyncio."""
    pipeline = _pipeline(client, names, read)
    connection, server = await _connected(client, pipeline)
    before = _socket(connection)
    replies = await _run_async(pipeline, connection)
    is_the_same = before is not None and _socket(connection) is before
    return Answers(list(names), replies, server if is_the_same else None, connection)


async def change_async(client: Any, change: Callable[[Any], Any]) -> None:
    """Makes a change, which is a call of the client."""
    pipeline = client.pipeline(transaction=False)
    change(pipeline)
    connection, _ = await _connected(client, pipeline)
    for reply in await _run_async(pipeline, connection):
        if isinstance(reply, Exception):
            raise reply


def _ask_any(engine: Any, names: Sequence[bytes], read: str) -> Answers:
    """Lets the client of a cluster find the servers by itself: nobody knows which ones those are, but that no replica answers."""
    if _sends_readonly(engine):     # its user has told it so since check()
        raise _replica()
    return Answers(list(names), list(_pipeline(engine, names, read).execute()), None)


def _ask_cluster(engine: Any, names: Sequence[bytes], read: str) -> Iterator[Answers]:
    parts: Dict[int, Tuple[Any, List[bytes]]] = {}
    for name in names:
        client = _client_at(engine, name)
        parts.setdefault(id(client), (client, []))[1].append(name)
    for client, part in parts.values():
        answers = _try_one(client, part, read) if client is not None else None
        yield answers or _ask_any(engine, part, read)


def _client_at(engine: Any, name: bytes) -> Any:
    """The client of the primary that has the key. None: the cluster is to be looked at anew."""
    try:
        node = engine.get_node_from_key(name)
        return node and (node.redis_connection or engine.get_redis_connection(node))
    except Exception as e:      # noqa: BLE001
        if not is_a(e, 'RedisError', 'ValkeyError', 'RedisClusterException'):
            raise
        return None


def _try_one(client: Any, names: Sequence[bytes], read: str) -> Optional[Answers]:
    """None: the server is not, or no longer, the one to be asked."""
    try:
        answers = _ask_one(client, names, read)
    except Exception as e:      # noqa: BLE001
        if not is_a(e, 'ConnectionError', 'TimeoutError', 'EngineError') and not _leads_elsewhere(e):
            raise
        return None
    return None if any(map(_leads_elsewhere, answers.replies)) else answers


class Patience:
    """Questions to one server that gives no answer. When a second one in a row was waited for in vain, one caller asks once a
    second, and the others get its error at once. A cluster has other servers, which answer."""

    def __init__(self, engine: Any) -> None:
        self._is_cluster = hasattr(engine, 'get_node_from_key')
        self._failed = self._again = math.inf       # the first failure since an answer, and the next question
        self._error: Optional[Exception] = None

    def ask(self, call: Callable[[], Any], is_heard: bool = False) -> Any:
        """`is_heard`: tslab-near hears the server, so that it is there again, or was there a bound ago."""
        begin = self._begin(is_heard)
        try:
            result = call()
        except Exception as e:      # noqa: BLE001
            self._note(begin, e)
            raise
        self._failed, self._error = math.inf, None
        return result

    async def ask_async(self, call: Callable[[], Any], is_heard: bool = False) -> Any:
        begin = self._begin(is_heard)
        try:
            result = await call()
        except Exception as e:      # noqa: BLE001
            self._note(begin, e)
            raise
        self._failed, self._error = math.inf, None
        return result

    def _begin(self, is_heard: bool) -> float:
        error, begin = None if is_heard else self._error, time.monotonic()
        if error is not None:
            if begin < self._again:
                raise error.with_traceback(None)
            self._again = begin + _AGAIN_SECONDS    # others do not ask beside this call
        return begin

    def _note(self, begin: float, trouble: Exception) -> None:
        end = time.monotonic()
        if self._is_cluster or end - begin < _LONG_SECONDS or not is_a(trouble, 'ConnectionError', 'TimeoutError') or \
                is_a(trouble, 'EngineError'):
            return
        if begin >= self._failed:
            self._error, self._again = trouble, end + _AGAIN_SECONDS
        self._failed = min(self._failed, end)


def ask(engine: Any, names: Sequence[bytes], read: str, patience: Patience, is_heard: bool) -> Iterator[Answers]:
    """Values and lifetimes of keys, in one round trip a server. `read` is the client's call that reads a value."""
    if hasattr(engine, 'get_node_from_key'):
        yield from _ask_cluster(engine, names, read)
    else:
        yield patience.ask(lambda: _ask_one(engine, names, read), is_heard)


async def ask_async(engine: Any, names: Sequence[bytes], read: str, patience: Patience, is_heard: bool) -> Answers:
    """As ask(), for a server and a client of redis.asyncio."""
    answers: Answers = await patience.ask_async(lambda: _ask_one_async(engine, names, read), is_heard)
    return answers

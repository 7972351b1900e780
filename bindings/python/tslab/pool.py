"""Pools: objects, roots and epochs."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import operator
import os
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from tslab import stats as _stats
from tslab._bytes import Bytes, c_string, raw
from tslab._native import ffi, lib
from tslab.domain import Domain
from tslab.errors import BusyError, ClosedError, DaemonError, check, error

EPOCH_CURRENT: int = lib.TSLAB_EPOCH_CURRENT

_CACHES = {'adaptive': lib.TSLAB_CACHE_ADAPTIVE, 'on': lib.TSLAB_CACHE_ON, 'off': lib.TSLAB_CACHE_OFF}
_STATES = {lib.TSLAB_EPOCH_OPEN: 'open', lib.TSLAB_EPOCH_CLOSING: 'closing', lib.TSLAB_EPOCH_DRAINED: 'drained'}
_ROOT_NAME_MAX = 47
_FOUND = ffi.typeof('struct found *')


def check_control(pool: Any, result: int, what: str = '') -> int:
    """The result of a control call, where it is no error. A BusyError names the process that is at control work."""
    if result != -errno.EBUSY:
        return check(result, what)
    pid = lib.tslab_control_owner(pool)
    busy = error(errno.EBUSY, f'{what} (process {pid})' if pid > 0 else what)
    if isinstance(busy, BusyError) and pid > 0:
        busy.pid = pid
    raise busy


@dataclasses.dataclass(frozen=True)
class EpochInfo:
    """An epoch. Times are seconds since 1970; `closed` is None while it is open."""

    epoch: int              # id in the low 8 bits, above it the era
    state: str              # 'open', 'closing' (objects may remain), 'drained'
    current: bool
    reserved: bool          # out of the rotation
    label: str
    opened: float
    closed: Optional[float]
    reclaimed_bytes: int    # that went back to the system so far, of this era


class Pool:
    """A pool, open in this process: `tslab.open()` and `tslab.create()` make one.

    Handles are numbers that name objects, the same in all processes. An epoch is a number, too: its id, and above 8
    bits its era; an id alone stands for the era that is open, EPOCH_CURRENT for the epoch that is current at the call.

    Threads: any thread may use it at any time. Each gets a record in the pool with its first call that allocates or
    frees. Fork: a forked child goes on using its parent's pool; its first call that needs a record attaches it, which
    may raise DaemonError where there is no daemon, ReplacedError where that has another arena. Spawned processes get
    the pool pickled: by its name, so that they open it for themselves. A private pool is shared by forking only.

    Views of objects stay good after close(): the memory is unmapped when the last of them is gone.

    All errors are OSErrors, of the classes in tslab.errors. After close() every call raises ClosedError; in a pool
    opened as a reader, calls that change something raise ReadOnlyError.
    """

    def __init__(self, native: Any, arguments: Optional[Dict[str, Any]] = None) -> None:
        self._native: Optional[Any] = _owning(native[0], native)
        self._arguments = arguments         # that open() got; None: a private pool
        self._reader = bool(arguments and arguments['reader'])

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Tuple[Any, ...]:
        if self._arguments is None:
            raise TypeError('a private pool cannot be pickled: it is shared with forked children only')
        return _open_pickled, (self._arguments,)

    @property
    def _pool(self) -> Any:
        native = self._native
        if native is None:
            raise ClosedError(errno.EBADF, 'the pool was closed')
        return native

    @property
    def closed(self) -> bool:
        """Whether close() was called, in this process."""
        return self._native is None

    def close(self) -> None:
        """Closes the pool in this process; once more does nothing. A call that another thread is in the middle of ends
        as in an open pool, or raises ClosedError."""
        self._native = None

    @property
    def stale(self) -> bool:
        """Returns whether the daemon has another arena by now: then close this pool, and reopen() it. If the daemon is
        gone, this asks its successor, if there is one; otherwise it takes one system call."""
        return bool(lib.tslab_stale(self._pool))

    @property
    def size_max(self) -> int:
        """The largest size in bytes that alloc() takes."""
        return int(lib.tslab_size_max(self._pool))

    @property
    def capacity(self) -> int:
        """The room for objects in bytes, whether it has memory or not."""
        return int(lib.tslab_capacity(self._pool))

    def reopen(self) -> Pool:
        """Opens the same pool once more, with the same arguments, in the arena that the daemon has by now. This one
        stays open. Errors as open(); ValueError: a private pool, which no daemon has."""
        if self._arguments is None:
            raise ValueError('a private pool cannot be opened again: it is shared with forked children only')
        return open(**self._arguments)

    # Objects

    def _alloc(self, size: int, epoch: int, pending: bool) -> Tuple[int, memoryview]:
        pool, found = self._pool, ffi.new(_FOUND)
        try:
            check(lib.alloc_object(pool, size, epoch, pending, found), f'allocating {size} bytes')
            return found.handle, self._view(pool, found)
        except BaseException:
            _free_lost(pool, found)
            raise

    def _view(self, pool: Any, found: Any) -> memoryview:
        kept = _owning(found.object, pool)      # it stays mapped until the last view is gone
        view = memoryview(ffi.buffer(kept, found.size)).cast('B')
        return view.toreadonly() if self._reader else view

    def alloc(self, size: int, epoch: int = EPOCH_CURRENT) -> Tuple[int, memoryview]:
        """Allocates an object of `size` bytes. Returns its handle, and its memory, which is not zeroed. The object
        stays until somebody frees the handle, even when this process dies.

        TooLargeError (larger than the pool's largest class), FullError (the arena, the system or the pool's limit has
        no memory for it), EpochClosedError, StaleError (the era of `epoch` is over)."""
        return self._alloc(size, epoch, False)

    def alloc_pending(self, size: int, epoch: int = EPOCH_CURRENT) -> Tuple[int, memoryview]:
        """Allocates as alloc() does, but the object is freed if this thread ends, or its process dies, before
        publish(). A thread may have 64 of them (Error with ENOBUFS beyond), so free() objects that come to nothing,
        or use pending()."""
        return self._alloc(size, epoch, True)

    @contextlib.contextmanager
    def pending(self, size: int, epoch: int = EPOCH_CURRENT) -> Iterator[Tuple[int, memoryview]]:
        """Allocates an object that a `with` block makes ready. It is published at the end of the block, or freed if an
        exception leaves the block.

            with pool.pending(100) as (handle, view):
                view[:5] = b'hello'

        The block must begin and end in one thread."""
        handle, view = self.alloc_pending(size, epoch)
        try:
            yield handle, view
        except BaseException:
            self.free(handle)
            raise
        self.publish(handle)

    def publish(self, handle: int) -> None:
        """Publishes an object that this thread allocated pending, or that any thread of this process shared by
        share_pending(): from then on it belongs to everyone. NotFoundError: it is neither."""
        check(lib.tslab_publish(self._pool, handle), 'publishing an object')

    def share_pending(self, handle: int) -> None:
        """Lets all threads of this process publish or free an object that this thread allocated pending, for tasks that
        go on in another thread. From then on the object is freed only if the process dies, or closes the pool, before
        it is published. NotFoundError: it is not pending here."""
        check(lib.tslab_pending_share(self._pool, handle), 'sharing an object')

    def put(self, data: Bytes, epoch: int = EPOCH_CURRENT) -> int:
        """Allocates an object that begins with `data`, and returns its handle. A process that is killed in here leaves
        nothing behind, nor does an exception. Errors as alloc()."""
        data, pool, found = raw(data), self._pool, ffi.new(_FOUND)
        try:
            check(lib.put_object(pool, data, len(data), epoch, found), f'allocating {len(data)} bytes')
            return int(found.handle)
        except BaseException:
            _free_lost(pool, found)
            raise

    def get(self, handle: int) -> memoryview:
        """Returns an object's memory, as large as its class; not a copy. The view is good until somebody frees the
        handle; later it may show another object. In a pool opened as a reader it is read-only. StaleError: the handle
        names no live object. Needs no record, so a forked child need not attach."""
        pool = self._pool
        found = lib.get_object(pool, handle)
        check(found.error, 'an object')
        return self._view(pool, found)

    def read(self, handle: int) -> bytes:
        """A copy of an object, made while it was live; as large as its class. StaleError."""
        found = lib.get_object(self._pool, handle)
        check(found.error, 'an object')
        copy = ffi.new('char[]', found.size)
        n = check(lib.tslab_read(self._pool, handle, copy, found.size), 'an object')
        return bytes(ffi.buffer(copy, n))

    def free(self, handle: int) -> None:
        """Frees an object of any process. StaleError: somebody freed it before; of several callers one succeeds."""
        check(lib.tslab_free(self._pool, handle), 'freeing an object')

    def alloc_batch(self, size: int, n: int, epoch: int = EPOCH_CURRENT) -> List[int]:
        """Allocates up to n objects and returns their handles: fewer if memory ran out on the way. Errors as alloc(),
        if there is not even one."""
        handles = ffi.new('tslab_handle[]', n)
        done = check(lib.tslab_alloc_batch(self._pool, size, epoch, handles, n), f'allocating {size} bytes')
        return list(ffi.unpack(handles, done))

    def free_batch(self, handles: Sequence[int]) -> int:
        """Frees objects: how many; the others were stale."""
        copy = ffi.new('tslab_handle[]', list(handles))     # an int would make as many handles of 0
        return check(lib.tslab_free_batch(self._pool, copy, len(copy)))

    def drain(self) -> None:
        """Gives back the slots that threads of all processes hold for allocations to come. Waits for the daemon up to
        20 ms."""
        check(lib.tslab_drain(self._pool))

    def reap(self) -> int:
        """Private pools: gives back the slots that dead children held, and frees their pending objects. Returns how
        many children that were. BusyError: another process does control work."""
        return check_control(self._pool, lib.tslab_reap(self._pool), 'reaping')

    def control_owner(self) -> Optional[int]:
        """Private pools: the process that does control work now, None if none does. Calls that need control work raise
        BusyError meanwhile. A process that is stopped in the middle of it stays there until it goes on or ends; no
        allocation and no change of a map waits for it."""
        return check(lib.tslab_control_owner(self._pool)) or None

    # Roots

    def root_get(self, name: str) -> int:
        """The handle that a named root was last set to; it may be stale. NotFoundError."""
        handle = ffi.new('tslab_handle *')
        check(lib.tslab_root_get(self._pool, _root_name(name), handle), f'root {name!r}')
        return int(handle[0])

    def root_set(self, name: str, handle: int, expected: int = 0) -> None:
        """Sets a root to `handle` if it is `expected` (0: absent); otherwise ChangedError. A pool has room for 255
        names, of roots that are set (FullError with ENOSPC). The root of a map can only be set to 0: map_remove()."""
        check(lib.tslab_root_set(self._pool, _root_name(name), expected, handle), f'root {name!r}')

    # Epochs. Control calls enter the daemon and wait for its answer: they raise DaemonError where there is none,
    # ReplacedError where it has another arena, Error with EPERM or EACCES where it does not let this process; in a
    # private pool BusyError while another process is at control work.

    def map_remove(self, name: str) -> None:
        """Removes a map with all its entries, for all programs; its name is free then. NotFoundError: there is none.
        For maps that are open under this name all calls raise Error with EIDRM from then on."""
        pool = self._pool
        check(lib.tslab_map_remove(pool, c_string(name, 'the name of a map')), f'map {name!r}')

    def epoch_current(self) -> int:
        """The epoch that EPOCH_CURRENT stands for now, with its era. Never enters the daemon."""
        epoch = ffi.new('uint32_t *')
        check(lib.tslab_epoch_current(self._pool, epoch))
        return int(epoch[0])

    def epoch_info(self, epoch: int) -> EpochInfo:
        """Tells of an epoch with its era, or of an id alone. StaleError where the era is over. Never enters the
        daemon."""
        info = _stats.new('tslab_epoch_info')
        check(lib.tslab_epoch_info(self._pool, epoch, info), f'epoch {epoch & 0xff}')
        return EpochInfo(info.epoch, _STATES[info.state], info.current, info.reserved,
                         ffi.string(info.label).decode(errors='replace'), info.opened_usec / 1e6,
                         info.closed_usec / 1e6 if info.closed_usec else None, info.reclaimed_bytes)

    def epochs(self) -> Iterator[EpochInfo]:
        """All of them, in the order of their ids."""
        for number in range(64):
            try:
                yield self.epoch_info(number)
            except OSError as e:
                if e.errno != errno.EINVAL:
                    raise
                return

    def epoch_advance(self) -> int:
        """Closes the current epoch to allocation, opens the next one and makes it current. A control call."""
        epoch = ffi.new('uint32_t *')
        check_control(self._pool, lib.tslab_epoch_advance(self._pool, epoch), 'advancing the epoch')
        return int(epoch[0])

    def epoch_advance_from(self, expected: int) -> Tuple[bool, int]:
        """Advances as epoch_advance() does, but only while `expected`, as epoch_current() returned it, is current.
        Returns whether this call advanced, and the epoch that is current now. Of several workers that expect the same
        epoch one advances. A control call."""
        epoch = ffi.new('uint32_t *')
        advanced = check_control(self._pool, lib.tslab_epoch_advance_from(self._pool, expected, epoch),
                                 'advancing the epoch')
        return advanced > 0, int(epoch[0])

    def epoch_reserve(self, label: Optional[str] = None) -> int:
        """Opens an epoch out of the rotation, for objects that outlive the others; epoch_close() gives it back. Error
        with ENOSPC where none can be spared. A control call."""
        epoch = ffi.new('uint32_t *')
        check_control(self._pool, lib.tslab_epoch_reserve(self._pool, _label(label), epoch), 'reserving an epoch')
        return int(epoch[0])

    def epoch_lease(self, label: Optional[str] = None) -> int:
        """Reserves an epoch for this process alone to own: when it dies, or closes the pool, the epoch is closed and
        all its objects are freed. A forked child does not inherit the lease. A control call."""
        epoch = ffi.new('uint32_t *')
        check_control(self._pool, lib.tslab_epoch_lease(self._pool, _label(label), epoch), 'leasing an epoch')
        return int(epoch[0])

    def epoch_label(self, epoch: int, label: Optional[str]) -> None:
        """Labels an epoch for people, in at most 31 bytes of printable text; None takes the label off. It goes when the
        id is opened anew. StaleError. A control call."""
        check_control(self._pool, lib.tslab_epoch_label(self._pool, epoch, _label(label)),
                      f'labelling epoch {epoch & 0xff}')

    def epoch_close(self, epoch: int, revoke: bool = False, older: bool = False) -> None:
        """Closes an epoch and gives the memory of its empty slabs back to the system; that of others follows as their
        objects are freed. Waits up to 200 ms for threads in the middle of a call. A control call.

        `revoke` frees all objects of the era that `epoch` names, or of the newest; `older` also the objects of
        earlier eras."""
        flags = (lib.TSLAB_CLOSE_REVOKE if revoke else 0) | (lib.TSLAB_CLOSE_OLDER if older else 0)
        check_control(self._pool, lib.tslab_epoch_close(self._pool, epoch, flags), f'closing epoch {epoch & 0xff}')

    def epoch_ref(self, epoch: int) -> None:
        """Takes a reference to an open epoch for this process. It keeps nothing open: it lets the last process that
        gives its reference back know that it is the last. References nest; a dead process has none, a forked child
        begins with none. EpochClosedError, StaleError."""
        check(lib.tslab_epoch_ref(self._pool, epoch), f'epoch {epoch & 0xff}')

    def epoch_unref(self, epoch: int) -> int:
        """Gives a reference back. Returns how many processes still have any. NotFoundError: this process has none."""
        return check(lib.tslab_epoch_unref(self._pool, epoch), f'epoch {epoch & 0xff}')

    def epoch_refs(self, epoch: int) -> int:
        """How many processes have references to an epoch."""
        return check(lib.tslab_epoch_refs(self._pool, epoch), f'epoch {epoch & 0xff}')

    def domain(self, epoch: int = EPOCH_CURRENT, *, auto_close: bool = False) -> Domain:
        """A scope that is this epoch's; EPOCH_CURRENT means the one that is current now, for good."""
        return Domain(self, self._pool, epoch, auto_close)

    # Statistics. All but thread_stats() walk through the slabs in use: some milliseconds for a GiB. They never enter
    # the daemon, and work at once in a forked child.

    def stats(self) -> _stats.Stats:
        """Counts the whole pool."""
        struct = _stats.new('tslab_stats')
        check(lib.tslab_stats(self._pool, struct), 'counting the pool')
        return _stats.Stats(**_stats.fields(_stats.Stats, struct))

    def class_stats(self, size: int) -> _stats.Count:
        """Counts the class that objects of `size` bytes are in. TooLargeError."""
        struct = _stats.new('tslab_count')
        check(lib.tslab_class_stats(self._pool, size, struct), f'counting objects of {size} bytes')
        return _stats.Count(**_stats.fields(_stats.Count, struct))

    def epoch_stats(self, epoch: int) -> _stats.Count:
        """Counts an epoch, open or closed. StaleError."""
        struct = _stats.new('tslab_count')
        check(lib.tslab_epoch_stats(self._pool, epoch, struct), f'counting epoch {epoch & 0xff}')
        return _stats.Count(**_stats.fields(_stats.Count, struct))

    def thread_stats(self) -> _stats.ThreadStats:
        """Tells of this thread, and gives it a record if it has none."""
        struct = _stats.new('tslab_thread_stats')
        check(lib.tslab_thread_stats(self._pool, struct), 'counting the thread')
        return _stats.ThreadStats(**{**_stats.fields(_stats.ThreadStats, struct), 'is_shared': struct.is_shared != 0})


def _new_pool() -> Any:
    """Room for a pool, which is closed when the room goes: also if an exception, as of a signal handler, comes right
    after the call that opens it."""
    return ffi.gc(ffi.new('struct tslab **'), lib.close_opened)


def _free_lost(pool: Any, found: Any) -> None:
    """For an exception, as of a signal handler, that keeps an object's handle from the caller."""
    if found.handle:
        lib.tslab_free(pool, found.handle)


def _owning(pointer: Any, owner: Any) -> Any:
    """A pointer with a reference to its owner, in a finalizer. That must not be Python code: signal handlers would run
    inside it, and the exceptions that they raise would be lost."""
    return ffi.gc(pointer, functools.partial(operator.is_, owner))


def _label(label: Optional[str]) -> Any:
    return c_string(label, 'a label') if label is not None else ffi.NULL


def _root_name(name: str) -> bytes:
    encoded = name.encode()
    if not 0 < len(encoded) <= _ROOT_NAME_MAX or b'\0' in encoded:
        raise ValueError(f'a root\'s name has 1 to {_ROOT_NAME_MAX} bytes, none of them NUL')
    return encoded


_unpickled: Dict[Tuple[Tuple[str, Any], ...], Pool] = {}


def _open_pickled(arguments: Dict[str, Any]) -> Pool:
    """A pool that came pickled. A process opens it once: a worker need not attach for each of its tasks."""
    key = tuple(sorted(arguments.items()))
    pool = _unpickled.get(key)
    if pool is None or pool.closed or pool.stale:
        pool = _unpickled[key] = open(**arguments)
    return pool


def _options(cache: str, timeout: Optional[float], comm: Optional[str]) -> Tuple[Any, Any]:
    """Options, and the memory that they point to."""
    if cache not in _CACHES:
        raise ValueError(f'cache is one of {", ".join(_CACHES)}, not {cache!r}')
    options = _stats.new('tslab_options')
    options.cache = _CACHES[cache]
    if timeout is not None:
        options.timeout_ms = max(1, int(timeout * 1000))
    name = ffi.new('char[]', c_string(comm, 'comm')) if comm is not None else ffi.NULL
    options.comm = name
    return options, name


def open(pool: Optional[str] = None, *, reader: bool = False, cache: str = 'adaptive',  # noqa: A001
         timeout: Optional[float] = None, comm: Optional[str] = None) -> Pool:
    """Opens a pool of a daemon: a name, the path of its socket, or None for $TSLAB_POOL, else "default".

    A `reader` maps the pool read-only. `cache` is 'adaptive', 'on' or 'off': whether threads keep slots for allocations
    to come. `timeout` is for each answer of the daemon, in seconds; None: 5. `comm` is shown for this process by
    tslabctl, at most 15 bytes; None: its own name.

    DaemonError (there is no daemon; it did not answer in time), Error with EACCES or EPERM (no permission), with EINVAL
    (not a name)."""
    options, _alive = _options(cache, timeout, comm)
    options.flags = lib.TSLAB_READER if reader else 0
    name = pool if pool is not None else os.environ.get('TSLAB_POOL') or 'default'
    native = _new_pool()
    r = lib.tslab_open(native, c_string(name, 'the name of a pool'), options)
    if r == -errno.ENOENT:
        raise DaemonError(errno.ENOENT, f'pool {name!r}: there is no daemon')
    check(r, f'pool {name!r}')
    return Pool(native, {'pool': name, 'reader': reader, 'cache': cache, 'timeout': timeout, 'comm': comm})


def create(*, size: int = 0, retain: int = 0, threads: int = 0, epochs: int = 0, classes: Sequence[int] = (),
           cache: str = 'adaptive') -> Pool:
    """Creates a private pool, shared with children that are forked later; it needs no daemon.

    `size` is the room for objects and `retain` the memory that free slabs keep, in bytes; `threads` is the number of
    records, of which each process takes one more than it has threads; `epochs` are 2 to 64; `classes` are rising
    multiples of 16 from 64 to 4096. 0, and no classes, stand for the defaults: see <tslab.h>. Error with EINVAL where
    they are out of range."""
    options, _alive = _options(cache, None, None)
    options.arena_bytes, options.retain_bytes = size, retain
    options.n_threads, options.n_epochs, options.n_classes = threads, epochs, len(classes)
    if len(classes) > len(options.classes):
        raise error(errno.EINVAL, f'{len(classes)} classes')
    for i, class_size in enumerate(classes):
        options.classes[i] = class_size
    native = _new_pool()
    check(lib.tslab_create(native, options), 'creating a pool')
    return Pool(native)

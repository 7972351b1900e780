"""Pools: objects, roots and epochs."""

from __future__ import annotations

import dataclasses
import errno
import functools
import operator
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from tslab._native import ffi, lib
from tslab.errors import ClosedError, DaemonError, check, error

EPOCH_CURRENT: int = lib.TSLAB_EPOCH_CURRENT

_CACHES = {'adaptive': lib.TSLAB_CACHE_ADAPTIVE, 'on': lib.TSLAB_CACHE_ON, 'off': lib.TSLAB_CACHE_OFF}
_STATES = {lib.TSLAB_EPOCH_OPEN: 'open', lib.TSLAB_EPOCH_CLOSING: 'closing', lib.TSLAB_EPOCH_DRAINED: 'drained'}
_ROOT_NAME_MAX = 47

Bytes = Union[bytes, bytearray, memoryview]     # and whatever else has the buffer protocol


@dataclasses.dataclass(frozen=True)
class EpochInfo:
    """An epoch. Times are seconds since 1970; `closed` is None while it is open."""

    epoch: int              # with its era
    state: str              # 'open', 'closing' (objects may remain), 'drained'
    current: bool
    reserved: bool          # out of the rotation
    label: str
    opened: float
    closed: Optional[float]
    reclaimed_bytes: int


def raw(data: Bytes):
    """The bytes of `data` as libtslab takes them. Its len() counts bytes, where that of `data` may count items."""
    if isinstance(data, bytes):
        return data
    view = memoryview(data)
    return ffi.from_buffer(view) if view.c_contiguous else view.tobytes()


def c_string(text: str, what: str) -> bytes:
    """The text as C has it: that ends at a NUL, and two names that differ after one would be the same."""
    if '\0' in text:
        raise ValueError(f'{what} must not contain a NUL: {text!r}')
    return text.encode()


def _fill(cache: str, timeout: Optional[float], comm: Optional[str]):
    """Options, and what they point to."""
    if cache not in _CACHES:
        raise ValueError(f'cache is one of {", ".join(_CACHES)}, not {cache!r}')
    options = ffi.new('struct tslab_options *')
    options.size = ffi.sizeof('struct tslab_options')
    options.cache = _CACHES[cache]
    if timeout is not None:
        options.timeout_ms = max(1, int(timeout * 1000))
    name = ffi.new('char[]', c_string(comm, 'comm')) if comm is not None else ffi.NULL
    options.comm = name
    return options, name


class Pool:
    """A pool, open in this process: `tslab.open()` and `tslab.create()` make one.

    Any thread may use it at any time. A forked child goes on using its parent's; its first call attaches it. Views of
    objects stay good after close(): the memory is unmapped when the last of them is gone.
    """

    def __init__(self, native, arguments: Optional[Dict[str, Any]] = None) -> None:
        self._native = ffi.gc(native, lib.tslab_close)
        self._arguments = arguments         # of open(); None for a private pool
        self._reader = bool(arguments and arguments['reader'])

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    @property
    def _pool(self):
        native = self._native
        if native is None:
            raise ClosedError(errno.EBADF, 'the pool was closed')
        return native

    @property
    def closed(self) -> bool:
        return self._native is None

    def close(self) -> None:
        """Closes the pool in this process; once more does nothing. No thread may be in the middle of a call."""
        self._native = None

    @property
    def stale(self) -> bool:
        """Whether the daemon has another arena by now: close this pool, and reopen() it. Where the daemon is gone this asks
        its successor, if there is one; otherwise it takes one system call."""
        return lib.tslab_stale(self._pool)

    def reopen(self) -> Pool:
        """Opens the same pool once more, with the same arguments, whatever arena the daemon has by now. This one stays
        open. Errors as open(); ValueError for a private pool, which no daemon has."""
        if self._arguments is None:
            raise ValueError('a private pool cannot be opened again: it is shared with forked children only')
        return open(**self._arguments)

    # Objects

    def _view(self, found) -> memoryview:
        # The finalizer refers to the pool, so that this stays mapped until the last view is gone. It must not be Python
        # code: signal handlers would run inside it, and what they raise would be lost.
        kept = ffi.gc(found.object, functools.partial(operator.is_, self._native))
        view = memoryview(ffi.buffer(kept, found.size)).cast('B')
        return view.toreadonly() if self._reader else view

    def alloc(self, size: int, epoch: int = EPOCH_CURRENT) -> Tuple[int, memoryview]:
        """A new object: its handle, and its memory, which is not zeroed. It stays until somebody frees the handle,
        also when this process dies."""
        found = lib.alloc_object(self._pool, size, epoch, False)
        check(found.error, f'allocating {size} bytes')
        return found.handle, self._view(found)

    def alloc_pending(self, size: int, epoch: int = EPOCH_CURRENT) -> Tuple[int, memoryview]:
        """As alloc(), but the object is freed if this process dies before publish()."""
        found = lib.alloc_object(self._pool, size, epoch, True)
        check(found.error, f'allocating {size} bytes')
        return found.handle, self._view(found)

    def publish(self, handle: int) -> None:
        """Makes an object that this thread allocated pending everyone's."""
        check(lib.tslab_publish(self._pool, handle), 'publishing an object')

    def put(self, data: Bytes, epoch: int = EPOCH_CURRENT) -> int:
        """A new object that begins with `data`: its handle. A process killed in here leaves nothing behind, and nor does
        an exception."""
        data = raw(data)
        found = lib.put_object(self._pool, data, len(data), epoch)
        check(found.error, f'allocating {len(data)} bytes')
        return found.handle

    def get(self, handle: int) -> memoryview:
        """An object's memory, as large as its class; not a copy. It is good until somebody frees the handle: what is
        read through it later may be another object's. In a pool opened as a reader
        it is read-only."""
        found = lib.get_object(self._pool, handle)
        check(found.error, 'an object')
        return self._view(found)

    def read(self, handle: int) -> bytes:
        """A copy of an object, made while it was live; as large as its class."""
        found = lib.get_object(self._pool, handle)
        check(found.error, 'an object')
        copy = ffi.new('char[]', found.size)
        n = check(lib.tslab_read(self._pool, handle, copy, found.size), 'an object')
        return ffi.buffer(copy, n)[:]

    def free(self, handle: int) -> None:
        """Frees an object; StaleError where somebody did before."""
        check(lib.tslab_free(self._pool, handle), 'freeing an object')

    def alloc_batch(self, size: int, n: int, epoch: int = EPOCH_CURRENT) -> List[int]:
        """Handles of up to n new objects; fewer where memory ran out on the way."""
        handles = ffi.new('tslab_handle[]', n)
        done = check(lib.tslab_alloc_batch(self._pool, size, epoch, handles, n), f'allocating {size} bytes')
        return ffi.unpack(handles, done)

    def free_batch(self, handles: Sequence[int]) -> int:
        """Frees objects: how many; the others were stale."""
        return check(lib.tslab_free_batch(self._pool, ffi.new('tslab_handle[]', handles), len(handles)))

    def drain(self) -> None:
        """Gives back what threads hold in advance for allocations to come."""
        check(lib.tslab_drain(self._pool))

    def reap(self) -> int:
        """Private pools: gives back what children that died left behind; how many those were."""
        return check(lib.tslab_reap(self._pool))

    # Roots

    def root_get(self, name: str) -> int:
        """The handle that a named root was last set to; it may be stale. NotFoundError."""
        handle = ffi.new('tslab_handle *')
        check(lib.tslab_root_get(self._pool, _root_name(name), handle), f'root {name!r}')
        return handle[0]

    def root_set(self, name: str, handle: int, expected: int = 0) -> None:
        """Sets a root to `handle` where it is `expected`, 0 for absent; ChangedError where it is not."""
        check(lib.tslab_root_set(self._pool, _root_name(name), expected, handle), f'root {name!r}')

    # Epochs

    def epoch_current(self) -> int:
        epoch = ffi.new('uint32_t *')
        check(lib.tslab_epoch_current(self._pool, epoch))
        return epoch[0]

    def epoch_info(self, epoch: int) -> EpochInfo:
        """Of an epoch with its era, or of an id alone: whichever era is open."""
        info = ffi.new('struct tslab_epoch_info *')
        info.size = ffi.sizeof('struct tslab_epoch_info')
        check(lib.tslab_epoch_info(self._pool, epoch, info), f'epoch {epoch & 0xff}')
        return EpochInfo(info.epoch, _STATES[info.state], info.current, info.reserved,
                         ffi.string(info.label).decode(errors='replace'), info.opened_usec / 1e6,
                         info.closed_usec / 1e6 if info.closed_usec else None, info.reclaimed_bytes)

    def epochs(self) -> Iterable[EpochInfo]:
        """All of them, in the order of their ids."""
        for number in range(64):
            try:
                yield self.epoch_info(number)
            except OSError as e:
                if e.errno != errno.EINVAL:
                    raise
                return

    def epoch_advance(self) -> int:
        """Closes the current epoch to allocation, opens the next one and makes it current."""
        epoch = ffi.new('uint32_t *')
        check(lib.tslab_epoch_advance(self._pool, epoch), 'advancing the epoch')
        return epoch[0]

    def epoch_advance_from(self, expected: int) -> Tuple[bool, int]:
        """As epoch_advance(), but only while `expected`, as epoch_current() told it, is current: whether this call
        advanced, and the epoch that is current now. Of several workers that expect the same epoch one advances."""
        epoch = ffi.new('uint32_t *')
        advanced = check(lib.tslab_epoch_advance_from(self._pool, expected, epoch), 'advancing the epoch')
        return advanced > 0, epoch[0]

    def epoch_reserve(self, label: Optional[str] = None) -> int:
        """Opens an epoch out of the rotation, for what outlives the others."""
        epoch = ffi.new('uint32_t *')
        check(lib.tslab_epoch_reserve(self._pool, c_string(label, 'a label') if label else ffi.NULL, epoch), 'reserving an epoch')
        return epoch[0]

    def epoch_close(self, epoch: int, revoke: bool = False, older: bool = False) -> None:
        """Closes an epoch and gives the memory of its empty slabs back.

        `revoke` frees all objects of the era that `epoch` names, or of the newest; `older` those of earlier eras, too.
        """
        flags = (lib.TSLAB_CLOSE_REVOKE if revoke else 0) | (lib.TSLAB_CLOSE_OLDER if older else 0)
        check(lib.tslab_epoch_close(self._pool, epoch, flags),
              f'closing epoch {epoch & 0xff}')


def _root_name(name: str) -> bytes:
    encoded = name.encode()
    if not 0 < len(encoded) <= _ROOT_NAME_MAX or b'\0' in encoded:
        raise ValueError(f'a root\'s name has 1 to {_ROOT_NAME_MAX} bytes')
    return encoded


def open(pool: Optional[str] = None, *, reader: bool = False, cache: str = 'adaptive',  # noqa: A001
         timeout: Optional[float] = None, comm: Optional[str] = None) -> Pool:
    """Opens a pool of a daemon: a name, the path of its socket, or None for $TSLAB_POOL, else "default".

    `timeout` is for each answer of the daemon, in seconds. DaemonError where there is none.
    """
    options, _alive = _fill(cache, timeout, comm)
    options.flags = lib.TSLAB_READER if reader else 0
    native = ffi.new('struct tslab **')
    r = lib.tslab_open(native, c_string(pool, 'the name of a pool') if pool is not None else ffi.NULL, options)
    what = f'pool {pool!r}' if pool is not None else 'the default pool'
    if r == -errno.ENOENT:
        raise DaemonError(errno.ENOENT, f'{what}: there is no daemon')
    check(r, what)
    return Pool(native[0], {'pool': pool, 'reader': reader, 'cache': cache, 'timeout': timeout, 'comm': comm})


def create(*, size: int = 0, retain: int = 0, threads: int = 0, epochs: int = 0, classes: Sequence[int] = (),
           cache: str = 'adaptive') -> Pool:
    """Creates a private pool, shared with children that are forked later; it needs no daemon.

    `size` and `retain` are bytes; 0 stands for the default everywhere. See <tslab.h>.
    """
    options, _alive = _fill(cache, None, None)
    options.arena_bytes, options.retain_bytes = size, retain
    options.n_threads, options.n_epochs, options.n_classes = threads, epochs, len(classes)
    if len(classes) > len(options.classes):
        raise error(errno.EINVAL, f'{len(classes)} classes')
    for i, class_size in enumerate(classes):
        options.classes[i] = class_size
    native = ffi.new('struct tslab **')
    check(lib.tslab_create(native, options), 'creating a pool')
    return Pool(native[0])

"""Statistics of pools. Sums over a pool in use are of no single moment."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict

from tslab._native import ffi


@dataclasses.dataclass(frozen=True)
class Stats:
    """A whole pool."""

    live_objects: int
    live_bytes: int             # each as large as its class
    cached_objects: int         # free, held by threads for allocations to come
    committed_bytes: int        # of slabs that have memory
    retained_bytes: int         # the part of them that is free
    # Sums over all threads that there have been.
    allocs: int
    frees: int
    alloc_hits: int             # allocations that a thread's cache served
    frees_cached: int           # frees that one took
    refills: int                # of caches
    flushes: int
    slabs_taken: int            # free slabs that came into use
    slabs_recycled: int         # slabs that were emptied
    slabs_reclaimed: int        # slabs whose memory went back to the system
    failures: int               # allocations that were refused for want of memory
    threads: int                # that have a record now
    alloc_bypassed: int         # allocations that went past a cache because it did not pay
    free_bypassed: int          # frees that did
    bypass_windows: int         # times that this began
    too_large: int              # objects that were refused: no class is so large
    too_large_bytes: int        # the largest of them
    values_too_large: int       # of maps
    values_too_large_bytes: int  # the largest of them, with its key and head
    failures_limit: int         # the part of the failures that the limit of a control group caused
    failures_system: int        # and the system, which had no memory
    frees_stale: int            # refused: double frees, and frees after the end of an era
    flushed_slots: int          # free slots that went from caches to slabs
    refilled_slots: int         # and from slabs to caches
    slabs_committed: int        # slabs that threads gave memory to, not the daemon
    slabs_filled: int           # slabs whose last free slot was taken
    slabs_reopened: int         # full slabs that have free slots again


@dataclasses.dataclass(frozen=True)
class Count:
    """A size class, or an epoch."""

    slabs: int                  # in use
    live_objects: int
    live_bytes: int


@dataclasses.dataclass(frozen=True)
class MapStats:
    """A map."""

    entries: int                # expired ones, too, until their memory goes back, and claims
    bytes: int                  # memory of the entries, as it counts against a limit
    hits: int                   # gets of threads that have allocated or freed; misses are of these, too
    misses: int
    inserts: int                # entries that came
    deletes: int                # entries that were deleted, or revoked
    expirations: int
    evictions: int
    failures: int               # puts that failed for want of memory


@dataclasses.dataclass(frozen=True)
class ThreadStats:
    """The calling thread, since it got its record."""

    allocs: int
    frees: int
    alloc_hits: int
    frees_cached: int
    refills: int
    flushes: int
    failures: int
    is_shared: bool             # with other threads of the process: there were no records left
    alloc_bypassed: int         # as in Stats
    free_bypassed: int
    bypass_windows: int


def new(kind: str) -> Any:
    """A struct for libtslab to fill in."""
    struct = ffi.new(f'struct {kind} *')
    struct.size = ffi.sizeof(f'struct {kind}')
    return struct


def fields(cls: type, struct: Any) -> Dict[str, int]:
    return {field.name: getattr(struct, field.name) for field in dataclasses.fields(cls)}

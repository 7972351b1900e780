//! The calls of libtslab as `<tslab.h>`, `<tslab_map.h>` and `<tslab_near.h>` declare them. The headers and their manual
//! pages are the reference; the crate `tslab` is the safe interface.
//!
//! The declarations are written by hand. `tests/rust/test-ffi.py` has a C compiler compare them with the headers.
#![allow(non_camel_case_types)]

use std::os::raw::{c_char, c_int, c_void};

pub type tslab_handle = u64;

macro_rules! opaque {
    ($($name:ident)*) => {$(
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
            _not_send: std::marker::PhantomData<(*mut u8, std::marker::PhantomPinned)>,
        }
    )*};
}

opaque!(tslab tslab_domain tslab_map tslab_waiter tslab_near);

// <tslab.h>

pub const TSLAB_EPOCH_CURRENT: u32 = u32::MAX;
pub const TSLAB_CLASSES_MAX: usize = 32;
pub const TSLAB_LABEL_SIZE: usize = 32;
pub const TSLAB_CACHE_ADAPTIVE: u32 = 0;
pub const TSLAB_CACHE_ON: u32 = 1;
pub const TSLAB_CACHE_OFF: u32 = 2;
pub const TSLAB_READER: u32 = 1;
pub const TSLAB_EPOCH_OPEN: u32 = 1;
pub const TSLAB_EPOCH_CLOSING: u32 = 2;
pub const TSLAB_EPOCH_DRAINED: u32 = 3;
pub const TSLAB_CLOSE_REVOKE: u32 = 1;
pub const TSLAB_CLOSE_OLDER: u32 = 2;
pub const TSLAB_DOMAIN_AUTO_CLOSE: u32 = 1;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct tslab_options {
    pub size: usize,
    pub flags: u32,
    pub cache: u32,
    pub timeout_ms: u32,
    pub comm: *const c_char,
    pub arena_bytes: u64,
    pub retain_bytes: u64,
    pub n_threads: u32,
    pub n_epochs: u32,
    pub n_classes: u32,
    pub classes: [u32; TSLAB_CLASSES_MAX],
    pub time_slow: u32,
    pub huge: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct tslab_epoch_info {
    pub size: usize,
    pub epoch: u32,
    pub state: u32,
    pub current: bool,
    pub reserved: bool,
    pub label: [c_char; TSLAB_LABEL_SIZE],
    pub opened_usec: u64,
    pub closed_usec: u64,
    pub reclaimed_bytes: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tslab_stats {
    pub size: usize,
    pub live_objects: u64,
    pub live_bytes: u64,
    pub cached_objects: u64,
    pub committed_bytes: u64,
    pub retained_bytes: u64,
    pub allocs: u64,
    pub frees: u64,
    pub alloc_hits: u64,
    pub frees_cached: u64,
    pub refills: u64,
    pub flushes: u64,
    pub slabs_taken: u64,
    pub slabs_recycled: u64,
    pub slabs_reclaimed: u64,
    pub failures: u64,
    pub threads: u32,
    pub reserved: u32,
    pub alloc_bypassed: u64,
    pub free_bypassed: u64,
    pub bypass_windows: u64,
    pub too_large: u64,
    pub too_large_bytes: u64,
    pub values_too_large: u64,
    pub values_too_large_bytes: u64,
    pub failures_limit: u64,
    pub failures_system: u64,
    pub frees_stale: u64,
    pub flushed_slots: u64,
    pub refilled_slots: u64,
    pub slabs_committed: u64,
    pub slabs_filled: u64,
    pub slabs_reopened: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tslab_count {
    pub size: usize,
    pub slabs: u64,
    pub live_objects: u64,
    pub live_bytes: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tslab_thread_stats {
    pub size: usize,
    pub allocs: u64,
    pub frees: u64,
    pub alloc_hits: u64,
    pub frees_cached: u64,
    pub refills: u64,
    pub flushes: u64,
    pub failures: u64,
    pub slow_allocs: u64,
    pub slow_allocs_timed: u64,
    pub slow_allocs_ns: u64,
    pub slow_alloc_max_ns: u64,
    pub slow_frees: u64,
    pub slow_frees_timed: u64,
    pub slow_frees_ns: u64,
    pub slow_free_max_ns: u64,
    pub is_shared: u32,
    pub reserved: u32,
    pub alloc_bypassed: u64,
    pub free_bypassed: u64,
    pub bypass_windows: u64,
}

// <tslab_map.h>

pub const TSLAB_MAP_KEY_MAX: usize = 4096;
pub const TSLAB_MAP_TAGS_MAX: usize = 4;
pub const TSLAB_MAP_SET_LIMIT: u32 = 1;
pub const TSLAB_MAP_SET_TTL: u32 = 2;
pub const TSLAB_MAP_SET_STALE: u32 = 4;
pub const TSLAB_MAP_SET_VALUE_MAX: u32 = 8;
pub const TSLAB_MAP_SET_EVICT: u32 = 16;
pub const TSLAB_MAP_NAME_MAX: usize = 43;
pub const TSLAB_MAP_EXISTING: u32 = 1;
pub const TSLAB_MAP_EXCLUSIVE: u32 = 2;
pub const TSLAB_MAP_TTL_DEFAULT: u64 = 0;
pub const TSLAB_MAP_TTL_MAX: u64 = 315_576_000_000;
pub const TSLAB_MAP_TTL_NONE: u64 = u64::MAX;
pub const TSLAB_MAP_EVICT_NEVER: u32 = 0;
pub const TSLAB_MAP_EVICT_SIEVE: u32 = 1;
pub const TSLAB_MAP_COUNTER: u32 = 1;
pub const TSLAB_MAP_STALE: u32 = 2;
pub const TSLAB_MAP_KEY_ONLY: u32 = 4;
pub const TSLAB_MAP_BUCKET: u32 = 8;
pub const TSLAB_MAP_TAGGED: u32 = 16;
pub const TSLAB_MAP_PUT: u32 = 0;
pub const TSLAB_MAP_INSERT: u32 = 1;
pub const TSLAB_MAP_UPDATE: u32 = 2;
pub const TSLAB_MAP_REPLACE: u32 = 3;
pub const TSLAB_MAP_ADD: u32 = 0;
pub const TSLAB_MAP_ADD_WRAP: u32 = 1;
pub const TSLAB_MAP_ADD_SET: u32 = 2;
pub const TSLAB_MAP_EPOCH_ALL: u32 = u32::MAX - 1;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct tslab_map_options {
    pub size: usize,
    pub ttl_ms: u64,
    pub limit_bytes: u64,
    pub value_max: u32,
    pub stale_ms: u32,
    pub evict: u32,
    pub flags: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct tslab_map_info {
    pub size: usize,
    pub epoch: u32,
    pub flags: u32,
    pub version: tslab_handle,
    pub ttl_left_ms: u64,
    pub value_size: u64,
    pub accept: u32,
    pub key_size: u32,
    pub place: tslab_handle,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct tslab_map_item {
    pub key: *const c_void,
    pub key_size: usize,
    pub value: *mut c_void,
    pub value_size: usize,
    pub result: i64,
    pub version: tslab_handle,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct tslab_map_put_options {
    pub size: usize,
    pub ttl_ms: u64,
    pub epoch: u32,
    pub mode: u32,
    pub n_tags: u32,
    pub reserved: u32,
    pub version: tslab_handle,
    pub tags: *const tslab_handle,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct tslab_map_add_options {
    pub size: usize,
    pub ttl_ms: u64,
    pub initial: i64,
    pub mode: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct tslab_map_cursor {
    pub at: [u64; 2],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tslab_map_statistics {
    pub size: usize,
    pub entries: u64,
    pub bytes: u64,
    pub hits: u64,
    pub misses: u64,
    pub inserts: u64,
    pub deletes: u64,
    pub expirations: u64,
    pub evictions: u64,
    pub failures: u64,
}

// <tslab_near.h>

pub const TSLAB_NEAR_NO_LIMIT: u64 = u64::MAX;
pub const TSLAB_NEAR_PREFIXES_SIZE: usize = 1024;
pub const TSLAB_NEAR_SERVERS_MAX: usize = 128;
pub const TSLAB_NEAR_CLAIMED_LAST: u32 = 1;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct tslab_near_claim {
    pub copy: tslab_handle,
    pub last: tslab_handle,
    pub cover: tslab_handle,
    pub flags: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct tslab_near_scope {
    pub size: usize,
    pub prefixes: *const *const c_char,
    pub n_prefixes: usize,
    pub servers: *const *const c_char,
    pub n_servers: usize,
}

extern "C" {
    // <tslab.h>
    pub fn tslab_version() -> *const c_char;
    pub fn tslab_open(ret: *mut *mut tslab, pool: *const c_char, options: *const tslab_options) -> c_int;
    pub fn tslab_create(ret: *mut *mut tslab, options: *const tslab_options) -> c_int;
    pub fn tslab_close(pool: *mut tslab) -> *mut tslab;
    pub fn tslab_stale(pool: *mut tslab) -> bool;
    pub fn tslab_alloc(
        pool: *mut tslab,
        size: usize,
        epoch: u32,
        ret_handle: *mut tslab_handle,
        ret_object: *mut *mut c_void,
    ) -> c_int;
    pub fn tslab_size_max(pool: *mut tslab) -> usize;
    pub fn tslab_free(pool: *mut tslab, handle: tslab_handle) -> c_int;
    pub fn tslab_get(
        pool: *mut tslab,
        handle: tslab_handle,
        ret_object: *mut *mut c_void,
        ret_size: *mut usize,
    ) -> c_int;
    pub fn tslab_read(pool: *mut tslab, handle: tslab_handle, buffer: *mut c_void, size: usize) -> isize;
    pub fn tslab_alloc_batch(
        pool: *mut tslab,
        size: usize,
        epoch: u32,
        ret_handles: *mut tslab_handle,
        n: usize,
    ) -> isize;
    pub fn tslab_free_batch(pool: *mut tslab, handles: *const tslab_handle, n: usize) -> isize;
    pub fn tslab_alloc_pending(
        pool: *mut tslab,
        size: usize,
        epoch: u32,
        ret_handle: *mut tslab_handle,
        ret_object: *mut *mut c_void,
    ) -> c_int;
    pub fn tslab_publish(pool: *mut tslab, handle: tslab_handle) -> c_int;
    pub fn tslab_pending_share(pool: *mut tslab, handle: tslab_handle) -> c_int;
    pub fn tslab_malloc(pool: *mut tslab, size: usize, epoch: u32) -> *mut c_void;
    pub fn tslab_mfree(pool: *mut tslab, object: *mut c_void);
    pub fn tslab_drain(pool: *mut tslab) -> c_int;
    pub fn tslab_root_get(pool: *mut tslab, name: *const c_char, ret_handle: *mut tslab_handle) -> c_int;
    pub fn tslab_root_set(pool: *mut tslab, name: *const c_char, expected: tslab_handle, handle: tslab_handle)
        -> c_int;
    pub fn tslab_epoch_current(pool: *mut tslab, ret_epoch: *mut u32) -> c_int;
    pub fn tslab_epoch_info(pool: *mut tslab, epoch: u32, info: *mut tslab_epoch_info) -> c_int;
    pub fn tslab_epoch_advance(pool: *mut tslab, ret_epoch: *mut u32) -> c_int;
    pub fn tslab_epoch_advance_from(pool: *mut tslab, expected: u32, ret_epoch: *mut u32) -> c_int;
    pub fn tslab_epoch_reserve(pool: *mut tslab, label: *const c_char, ret_epoch: *mut u32) -> c_int;
    pub fn tslab_epoch_lease(pool: *mut tslab, label: *const c_char, ret_epoch: *mut u32) -> c_int;
    pub fn tslab_epoch_label(pool: *mut tslab, epoch: u32, label: *const c_char) -> c_int;
    pub fn tslab_reap(pool: *mut tslab) -> c_int;
    pub fn tslab_control_owner(pool: *mut tslab) -> c_int;
    pub fn tslab_epoch_close(pool: *mut tslab, epoch: u32, flags: u32) -> c_int;
    pub fn tslab_epoch_ref(pool: *mut tslab, epoch: u32) -> c_int;
    pub fn tslab_epoch_unref(pool: *mut tslab, epoch: u32) -> c_int;
    pub fn tslab_epoch_refs(pool: *mut tslab, epoch: u32) -> c_int;
    pub fn tslab_domain_open(ret: *mut *mut tslab_domain, pool: *mut tslab, epoch: u32, flags: u32) -> c_int;
    pub fn tslab_domain_close(domain: *mut tslab_domain) -> *mut tslab_domain;
    pub fn tslab_domain_enter(domain: *mut tslab_domain) -> c_int;
    pub fn tslab_domain_leave(domain: *mut tslab_domain) -> c_int;
    pub fn tslab_domain_epoch(domain: *const tslab_domain) -> u32;
    pub fn tslab_domain_current() -> *mut tslab_domain;
    pub fn tslab_capacity(pool: *mut tslab) -> u64;
    pub fn tslab_contains(pool: *mut tslab, address: *const c_void) -> bool;
    pub fn tslab_stats(pool: *mut tslab, stats: *mut tslab_stats) -> c_int;
    pub fn tslab_class_stats(pool: *mut tslab, size: usize, ret: *mut tslab_count) -> c_int;
    pub fn tslab_epoch_stats(pool: *mut tslab, epoch: u32, ret: *mut tslab_count) -> c_int;
    pub fn tslab_thread_stats(pool: *mut tslab, stats: *mut tslab_thread_stats) -> c_int;
    // <tslab_map.h>
    pub fn tslab_map_open(
        ret: *mut *mut tslab_map,
        pool: *mut tslab,
        name: *const c_char,
        options: *const tslab_map_options,
    ) -> c_int;
    pub fn tslab_map_remove(pool: *mut tslab, name: *const c_char) -> c_int;
    pub fn tslab_map_tag(
        map: *mut tslab_map,
        tag: *const c_void,
        tag_size: usize,
        epoch: u32,
        ret_tag: *mut tslab_handle,
    ) -> c_int;
    pub fn tslab_map_invalidate(map: *mut tslab_map, tag: *const c_void, tag_size: usize) -> c_int;
    pub fn tslab_map_close(map: *mut tslab_map) -> *mut tslab_map;
    pub fn tslab_map_set_options(map: *mut tslab_map, options: *const tslab_map_options, set: u32) -> c_int;
    pub fn tslab_map_size_max(map: *mut tslab_map) -> usize;
    pub fn tslab_map_get(
        map: *mut tslab_map,
        key: *const c_void,
        key_size: usize,
        buffer: *mut c_void,
        buffer_size: usize,
        ret_version: *mut tslab_handle,
    ) -> isize;
    pub fn tslab_map_get_with(
        map: *mut tslab_map,
        key: *const c_void,
        key_size: usize,
        buffer: *mut c_void,
        buffer_size: usize,
        ret_info: *mut tslab_map_info,
    ) -> isize;
    pub fn tslab_map_find(
        map: *mut tslab_map,
        key: *const c_void,
        key_size: usize,
        ret_info: *mut tslab_map_info,
    ) -> c_int;
    pub fn tslab_map_read(
        map: *mut tslab_map,
        place: tslab_handle,
        offset: usize,
        buffer: *mut c_void,
        buffer_size: usize,
    ) -> isize;
    pub fn tslab_map_get_alloc(
        map: *mut tslab_map,
        key: *const c_void,
        key_size: usize,
        ret: *mut *mut c_void,
        ret_info: *mut tslab_map_info,
    ) -> c_int;
    pub fn tslab_map_get_many(map: *mut tslab_map, items: *mut tslab_map_item, n: usize) -> isize;
    pub fn tslab_map_put(
        map: *mut tslab_map,
        key: *const c_void,
        key_size: usize,
        value: *const c_void,
        value_size: usize,
        epoch: u32,
    ) -> c_int;
    pub fn tslab_map_put_with(
        map: *mut tslab_map,
        key: *const c_void,
        key_size: usize,
        value: *const c_void,
        value_size: usize,
        options: *const tslab_map_put_options,
    ) -> c_int;
    pub fn tslab_map_put_many(
        map: *mut tslab_map,
        items: *mut tslab_map_item,
        n: usize,
        options: *const tslab_map_put_options,
    ) -> isize;
    pub fn tslab_map_touch(map: *mut tslab_map, key: *const c_void, key_size: usize, ttl_ms: u64) -> c_int;
    pub fn tslab_map_get_touch(
        map: *mut tslab_map,
        key: *const c_void,
        key_size: usize,
        ttl_ms: u64,
        buffer: *mut c_void,
        buffer_size: usize,
        ret_info: *mut tslab_map_info,
    ) -> isize;
    pub fn tslab_map_add(
        map: *mut tslab_map,
        key: *const c_void,
        key_size: usize,
        delta: i64,
        initial: i64,
        ttl_ms: u64,
        ret_value: *mut i64,
    ) -> c_int;
    pub fn tslab_map_add_with(
        map: *mut tslab_map,
        key: *const c_void,
        key_size: usize,
        value: i64,
        options: *const tslab_map_add_options,
        ret_value: *mut i64,
    ) -> c_int;
    pub fn tslab_map_add_at(map: *mut tslab_map, counter: tslab_handle, delta: i64, ret_value: *mut i64) -> c_int;
    pub fn tslab_map_limit(
        map: *mut tslab_map,
        key: *const c_void,
        key_size: usize,
        per_second: f64,
        burst: u32,
        cost: u32,
        ret_retry_ms: *mut u64,
    ) -> c_int;
    pub fn tslab_map_replace(
        map: *mut tslab_map,
        key: *const c_void,
        key_size: usize,
        version: tslab_handle,
        value: *const c_void,
        value_size: usize,
        epoch: u32,
    ) -> c_int;
    pub fn tslab_map_delete(map: *mut tslab_map, key: *const c_void, key_size: usize) -> c_int;
    pub fn tslab_map_delete_version(
        map: *mut tslab_map,
        key: *const c_void,
        key_size: usize,
        version: tslab_handle,
    ) -> c_int;
    pub fn tslab_map_take(
        map: *mut tslab_map,
        key: *const c_void,
        key_size: usize,
        buffer: *mut c_void,
        buffer_size: usize,
        ret_info: *mut tslab_map_info,
    ) -> isize;
    pub fn tslab_map_claim(
        map: *mut tslab_map,
        key: *const c_void,
        key_size: usize,
        epoch: u32,
        ret_version: *mut tslab_handle,
    ) -> c_int;
    pub fn tslab_map_claim_for(
        map: *mut tslab_map,
        key: *const c_void,
        key_size: usize,
        epoch: u32,
        limit_ms: u32,
        ret_version: *mut tslab_handle,
    ) -> c_int;
    pub fn tslab_map_claim_extend(
        map: *mut tslab_map,
        key: *const c_void,
        key_size: usize,
        limit_ms: u32,
        version: *mut tslab_handle,
    ) -> c_int;
    pub fn tslab_map_wait(
        map: *mut tslab_map,
        key: *const c_void,
        key_size: usize,
        version: tslab_handle,
        timeout_ms: u32,
    ) -> c_int;
    pub fn tslab_waiter_open(ret: *mut *mut tslab_waiter, pool: *mut tslab) -> c_int;
    pub fn tslab_waiter_close(waiter: *mut tslab_waiter) -> *mut tslab_waiter;
    pub fn tslab_waiter_fd(waiter: *mut tslab_waiter) -> c_int;
    pub fn tslab_waiter_add(
        waiter: *mut tslab_waiter,
        map: *mut tslab_map,
        key: *const c_void,
        key_size: usize,
        version: tslab_handle,
        timeout_ms: u32,
        ret_wait: *mut u64,
    ) -> c_int;
    pub fn tslab_waiter_cancel(waiter: *mut tslab_waiter, wait: u64) -> c_int;
    pub fn tslab_waiter_next(waiter: *mut tslab_waiter, ret_wait: *mut u64, ret_result: *mut c_int) -> c_int;
    pub fn tslab_map_expire(map: *mut tslab_map, epoch: u32) -> isize;
    pub fn tslab_map_next(
        map: *mut tslab_map,
        cursor: *mut tslab_map_cursor,
        buffer: *mut c_void,
        buffer_size: usize,
        ret_info: *mut tslab_map_info,
    ) -> c_int;
    pub fn tslab_map_statistics(map: *mut tslab_map, ret: *mut tslab_map_statistics) -> c_int;
    pub fn tslab_map_count(map: *mut tslab_map) -> isize;
    // <tslab_near.h>
    pub fn tslab_near_open(
        ret: *mut *mut tslab_near,
        pool: *mut tslab,
        name: *const c_char,
        options: *const tslab_map_options,
    ) -> c_int;
    pub fn tslab_near_close(near: *mut tslab_near) -> *mut tslab_near;
    pub fn tslab_near_get(
        near: *mut tslab_near,
        key: *const c_void,
        key_size: usize,
        buffer: *mut c_void,
        buffer_size: usize,
        wait_ms: u32,
        ret_claim: *mut tslab_near_claim,
    ) -> isize;
    pub fn tslab_near_fill(
        near: *mut tslab_near,
        key: *const c_void,
        key_size: usize,
        claim: *const tslab_near_claim,
        server: *const c_char,
        value: *const c_void,
        value_size: usize,
        ttl_ms: u64,
    ) -> c_int;
    pub fn tslab_near_give_up(
        near: *mut tslab_near,
        key: *const c_void,
        key_size: usize,
        claim: *const tslab_near_claim,
    ) -> c_int;
    pub fn tslab_near_drop(near: *mut tslab_near, key: *const c_void, key_size: usize) -> c_int;
    pub fn tslab_near_keep_last(near: *mut tslab_near) -> c_int;
    pub fn tslab_near_last(
        near: *mut tslab_near,
        key: *const c_void,
        key_size: usize,
        ret_value: *mut *mut c_void,
        ret_size: *mut usize,
    ) -> c_int;
    pub fn tslab_near_begin(near: *mut tslab_near, scope: *const tslab_near_scope) -> c_int;
    pub fn tslab_near_cover(near: *mut tslab_near, until_usec: u64) -> c_int;
    pub fn tslab_near_end(near: *mut tslab_near) -> c_int;
    pub fn tslab_near_flush(near: *mut tslab_near) -> c_int;
}

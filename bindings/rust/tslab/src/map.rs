use std::cell::Cell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::raw::c_void;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use crate::epoch::Epoch;
use crate::error::{check, errno_of, Error, Result, EAGAIN, EEXIST, EINTR, EMSGSIZE, ENOENT, ETIMEDOUT, EUCLEAN};
use crate::pool::{long_millis, millis, non_null, sized, Pool};
use crate::text::Text;
use tslab_sys as sys;

// A value of up to this size is copied to the stack and from there. For a larger one, a second call asks for its size.
const ROOM: usize = 1024;
const STEP_ROOM: usize = 8192; // for a key, and a value that is not large

/// Sizes of the values that this thread got. After two of one size a third is expected: then its own memory takes it.
#[derive(Clone, Copy, Default)]
struct Sizes {
    likely: usize,
    last: usize,
}

thread_local! {
    static SIZES: Cell<Sizes> = const { Cell::new(Sizes { likely: 0, last: 0 }) };
}

/// How long an entry lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// As long as [`MapOptions::ttl`] of its map says.
    Map,
    /// It has no end.
    Endless,
    /// So long, up to ten years.
    After(Duration),
}

impl From<Duration> for Ttl {
    fn from(time: Duration) -> Self {
        Ttl::After(time)
    }
}

impl Ttl {
    fn raw(self) -> Result<u64> {
        match self {
            Ttl::Map => Ok(sys::TSLAB_MAP_TTL_DEFAULT),
            Ttl::Endless => Ok(sys::TSLAB_MAP_TTL_NONE),
            Ttl::After(time) => lifetime(time),
        }
    }
}

fn lifetime(time: Duration) -> Result<u64> {
    match long_millis(time) {
        0 => Err(Error::Invalid),
        ms if ms > sys::TSLAB_MAP_TTL_MAX => Err(Error::Invalid),
        ms => Ok(ms),
    }
}

/// Which value it is: every put makes a new version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version(pub(crate) u64);

impl Version {
    /// That of an absent key, for [`Map::replace`].
    pub const ABSENT: Version = Version(0);

    /// Its number, which a program may keep.
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The version of a number.
    #[must_use]
    pub const fn from_raw(number: u64) -> Self {
        Version(number)
    }
}

/// Whether entries that were not used for long make room for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evict {
    /// Puts fail where the map is full.
    Never,
    /// They make room.
    Sieve,
}

/// How to open a map. All but the first two belong to the map, and count only if this call creates it.
#[derive(Clone)]
pub struct MapOptions(sys::tslab_map_options);

impl Default for MapOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl MapOptions {
    /// The defaults: no limit, no end, no eviction.
    #[must_use]
    pub fn new() -> Self {
        MapOptions(sized())
    }

    /// Does not create it.
    #[must_use]
    pub fn existing(mut self) -> Self {
        self.0.flags |= sys::TSLAB_MAP_EXISTING;
        self
    }

    /// Creates it, or fails.
    #[must_use]
    pub fn exclusive(mut self) -> Self {
        self.0.flags |= sys::TSLAB_MAP_EXCLUSIVE;
        self
    }

    /// The lifetime of entries that are put without one.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.0.ttl_ms = long_millis(ttl);
        self
    }

    /// The memory that all entries may take.
    #[must_use]
    pub fn limit_bytes(mut self, bytes: u64) -> Self {
        self.0.limit_bytes = bytes;
        self
    }

    /// The size of the largest value, 16 MiB at most; 1 MiB where none is named.
    #[must_use]
    pub fn value_max(mut self, bytes: u32) -> Self {
        self.0.value_max = bytes;
        self
    }

    /// For how long [`Map::get_stale`] still has expired values.
    #[must_use]
    pub fn stale(mut self, time: Duration) -> Self {
        self.0.stale_ms = millis(time);
        self
    }

    /// Whether entries that were not used for long make room.
    #[must_use]
    pub fn evict(mut self, evict: Evict) -> Self {
        self.0.evict = match evict {
            Evict::Never => sys::TSLAB_MAP_EVICT_NEVER,
            Evict::Sieve => sys::TSLAB_MAP_EVICT_SIEVE,
        };
        self
    }
}

/// How to put a value: into which epoch, and for how long.
///
/// ```
/// # let pool = tslab::Pool::create()?;
/// # let map = pool.map("sessions")?;
/// use std::time::Duration;
///
/// map.put_with(b"alice", b"127 requests", tslab::Put::new().ttl(Duration::from_secs(60)))?;
/// # Ok::<(), tslab::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Put {
    epoch: Epoch,
    ttl: Ttl,
    tags: [sys::tslab_handle; sys::TSLAB_MAP_TAGS_MAX],
    n_tags: u32,
}

/// A tag as it was when [`Map::tag`] was called, for [`Put::tag`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag(sys::tslab_handle);

impl Default for Put {
    fn default() -> Self {
        Self::new()
    }
}

impl Put {
    /// Into the current epoch, with the lifetime that the map names.
    #[must_use]
    pub const fn new() -> Self {
        Put { epoch: Epoch::CURRENT, ttl: Ttl::Map, tags: [0; sys::TSLAB_MAP_TAGS_MAX], n_tags: 0 }
    }

    /// Into another epoch.
    #[must_use]
    pub const fn epoch(mut self, epoch: Epoch) -> Self {
        self.epoch = epoch;
        self
    }

    /// For another time.
    #[must_use]
    pub fn ttl(mut self, ttl: impl Into<Ttl>) -> Self {
        self.ttl = ttl.into();
        self
    }

    /// With a tag: the entry is absent once [`Map::invalidate`] was called for it. An entry has up to four tags; with more,
    /// the put is [`Error::Invalid`].
    #[must_use]
    pub fn tag(mut self, tag: Tag) -> Self {
        if let Some(room) = self.tags.get_mut(self.n_tags as usize) {
            *room = tag.0;
        }
        self.n_tags += 1;
        self
    }

    /// The options point to the tags.
    fn raw(&self, mode: u32, version: Version) -> Result<sys::tslab_map_put_options> {
        let mut options: sys::tslab_map_put_options = sized();
        options.n_tags = self.n_tags;
        options.tags = self.tags.as_ptr();
        options.epoch = self.epoch.raw();
        options.ttl_ms = self.ttl.raw()?;
        options.mode = mode;
        options.version = version.0;
        Ok(options)
    }
}

/// A value, and what else there is to know of its entry.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The value.
    pub value: Vec<u8>,
    /// Which value it is; of a stale one [`Version::ABSENT`], as of an absent key.
    pub version: Version,
    /// The epoch that it is in, with its era.
    pub epoch: Epoch,
    /// Whether [`Map::add`] or [`Map::limit`] made it.
    pub is_counter: bool,
    /// Whether its time is over, see [`Map::get_stale`].
    pub is_stale: bool,
    /// How long it has left; nothing: it has no end.
    pub ttl_left: Option<Duration>,
}

impl Entry {
    fn new(value: Vec<u8>, info: &sys::tslab_map_info) -> Self {
        Entry {
            value,
            version: Version(info.version),
            epoch: Epoch(info.epoch),
            is_counter: info.flags & sys::TSLAB_MAP_COUNTER != 0,
            is_stale: info.flags & sys::TSLAB_MAP_STALE != 0,
            ttl_left: left(info),
        }
    }
}

fn left(info: &sys::tslab_map_info) -> Option<Duration> {
    Some(info.ttl_left_ms).filter(|ms| *ms != u64::MAX).map(Duration::from_millis)
}

/// Where a walk through a map is: a value, which may be copied, kept and sent. It holds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor([u64; 2]);

impl Cursor {
    /// Its numbers, for [`Cursor::from_raw`]; zeros are the beginning.
    #[must_use]
    pub const fn raw(self) -> [u64; 2] {
        self.0
    }

    /// Goes on where those numbers were.
    #[must_use]
    pub const fn from_raw(numbers: [u64; 2]) -> Self {
        Cursor(numbers)
    }
}

/// What [`Map::claim_raw`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claimed {
    Mine(Version),
    Other(Version),
    HasValue,
}

struct Opened {
    raw: NonNull<sys::tslab_map>,
    name: Box<str>,
    options: MapOptions,
    pool: Pool,
}

// SAFETY: any thread may make any call at any time (<tslab_map.h>, "Threads").
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: this is the last call with the map, and the pool is still there.
        unsafe { sys::tslab_map_close(self.raw.as_ptr()) };
    }
}

/// A map of byte strings to byte strings, shared by all processes of a pool. Clones are the same map.
///
/// ```
/// let pool = tslab::Pool::create()?; // or Pool::open("web")
/// let sessions = pool.map("sessions")?;
/// sessions.put(b"alice", b"127 requests")?;
/// assert_eq!(sessions.get(b"alice")?.as_deref(), Some(&b"127 requests"[..]));
/// assert!(sessions.delete(b"alice")?);
/// assert_eq!(sessions.get(b"alice")?, None);
/// # Ok::<(), tslab::Error>(())
/// ```
///
/// Calls do not wait for other processes, except [`Map::wait`] and those that wait for locks and claims. A process that is
/// killed inside a call leaves the old value or the new one. A get returns a value that the key had at one moment, as a
/// copy.
///
/// Calls that change a map fail with [`Error::NoMemory`] or [`Error::NoSpace`] if there is no room (the old value stays),
/// [`Error::TooLarge`], [`Error::ReadOnly`], [`Error::EpochClosed`] and [`Error::Stale`] for the epoch, and in a forked
/// child with the errors of attaching. All calls fail with [`Error::Revoked`] if the index of the map was revoked. Calls
/// that read a value fail with [`Error::Damaged`] if a stray write has damaged it.
#[derive(Clone)]
pub struct Map(Arc<Opened>);

impl std::fmt::Debug for Map {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Map({:?} of {:?})", self.0.name, self.0.pool)
    }
}

impl Pool {
    /// Opens the map of that name, and creates it where there is none.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the name is empty, longer than 43 bytes or no printable text; [`Error::NoSpace`]: all
    /// names of maps and roots are in use; and the others of `tslab_map_open(3)`.
    pub fn map(&self, name: &str) -> Result<Map> {
        self.map_with(name, &MapOptions::new())
    }

    /// Opens a map with options.
    ///
    /// # Errors
    /// As [`Pool::map`]; [`Error::NotFound`] and [`Error::Exists`] as the options say.
    pub fn map_with(&self, name: &str, options: &MapOptions) -> Result<Map> {
        let (text, mut raw) = (Text::new(name)?, ptr::null_mut());
        // SAFETY: the name ends with a 0, and the options have their size.
        check(unsafe { sys::tslab_map_open(&mut raw, self.raw(), text.as_ptr(), &options.0) })?;
        let raw = non_null(raw);
        Ok(Map(Arc::new(Opened { raw, name: name.into(), options: options.clone(), pool: self.clone() })))
    }
}

/// The calls about one key take it as anything that has bytes.
macro_rules! key {
    ($key:ident) => {
        let $key = $key.as_ref();
        let $key = ($key.as_ptr().cast::<std::os::raw::c_void>(), $key.len());
    };
}

impl Map {
    /// The pool that it is in.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.0.pool
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// For calls of [`tslab_sys`]; stays owned.
    #[must_use]
    #[inline]
    pub fn raw(&self) -> *mut sys::tslab_map {
        self.0.raw.as_ptr()
    }

    /// Opens the pool anew, and this map in it: for [`Error::Replaced`] and [`Error::Revoked`].
    ///
    /// # Errors
    /// As [`Pool::open`] and [`Pool::map`].
    pub fn reopen(&self) -> Result<Self> {
        let pool = if self.0.pool.stale() { self.0.pool.reopen()? } else { self.0.pool.clone() };
        pool.map_with(&self.0.name, &self.0.options)
    }

    /// The size of the largest value.
    #[must_use]
    pub fn size_max(&self) -> usize {
        // SAFETY: the map is open.
        unsafe { sys::tslab_map_size_max(self.raw()) }
    }

    /// EUCLEAN of a call that reads is damage, unless the pool has been replaced.
    #[cold]
    fn error(&self, errno: i32) -> Error {
        if errno == EUCLEAN && !self.0.pool.stale() {
            return Error::Damaged;
        }
        Error::new(errno)
    }

    #[inline]
    fn checked(&self, n: isize) -> Result<usize> {
        usize::try_from(n).map_err(|_| self.error(errno_of(n)))
    }

    // Reading

    /// A key's value.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Revoked`].
    #[inline]
    pub fn get<K: AsRef<[u8]> + ?Sized>(&self, key: &K) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        match self.get_likely(key) {
            Some(value) => Ok(value),
            None => self.get_by_stack(key),
        }
    }

    /// Copies a value of the size that it is guessed to have into its own memory. Nothing: there was no guess, or a wrong one.
    /// Vectors are built at the end, from registers: written as parts and moved as a whole, one costs 10 ns.
    #[inline]
    #[allow(clippy::option_option)] // "absent" and "not known" are two things
    fn get_likely(&self, key: &[u8]) -> Option<Option<Vec<u8>>> {
        let size = SIZES.with(Cell::get).likely;
        if size == 0 {
            return None;
        }
        let mut room = ManuallyDrop::new(Vec::<u8>::with_capacity(size));
        let (data, capacity) = (room.as_mut_ptr(), room.capacity());
        // SAFETY: key and data have these sizes.
        let n = unsafe {
            sys::tslab_map_get(self.raw(), key.as_ptr().cast(), key.len(), data.cast(), size, ptr::null_mut())
        };
        if usize::try_from(n) == Ok(size) {
            // SAFETY: these are the parts of a vector, and so many bytes were copied.
            return Some(Some(unsafe { Vec::from_raw_parts(data, size, capacity) }));
        }
        // SAFETY: as above, of which none is used.
        drop(unsafe { Vec::from_raw_parts(data, 0, capacity) });
        SIZES.with(|sizes| sizes.set(Sizes::default()));
        if errno_of(n) == ENOENT {
            return Some(None);
        }
        None
    }

    #[inline(never)]
    fn get_by_stack(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut room = MaybeUninit::<[u8; ROOM]>::uninit();
        // SAFETY: key and room have these sizes.
        let n = unsafe {
            sys::tslab_map_get(
                self.raw(),
                key.as_ptr().cast(),
                key.len(),
                room.as_mut_ptr().cast(),
                ROOM,
                ptr::null_mut(),
            )
        };
        let n = match usize::try_from(n) {
            Ok(n) => n,
            Err(_) => return self.get_other(key, errno_of(n)),
        };
        SIZES.with(|sizes| {
            let last = sizes.get().last;
            sizes.set(Sizes { likely: if last == n { n } else { 0 }, last: n });
        });
        // SAFETY: so many bytes were copied.
        Ok(Some(unsafe { std::slice::from_raw_parts(room.as_ptr().cast::<u8>(), n) }.to_vec()))
    }

    #[cold]
    fn get_other(&self, key: &[u8], errno: i32) -> Result<Option<Vec<u8>>> {
        match errno {
            ENOENT => Ok(None),
            EMSGSIZE => Ok(self.get_entry(key)?.map(|entry| entry.value)),
            errno => Err(self.error(errno)),
        }
    }

    /// Copies a key's value to the start of a buffer, and returns its size; nothing: the key is absent.
    ///
    /// # Errors
    /// [`Error::Io`] with `EMSGSIZE`: the buffer is too small; [`Error::Damaged`], [`Error::Revoked`].
    #[inline]
    pub fn get_into<K: AsRef<[u8]> + ?Sized>(&self, key: &K, buffer: &mut [u8]) -> Result<Option<usize>> {
        key!(key);
        // SAFETY: key and buffer have these sizes.
        let n = unsafe {
            sys::tslab_map_get(self.raw(), key.0, key.1, buffer.as_mut_ptr().cast(), buffer.len(), ptr::null_mut())
        };
        match usize::try_from(n) {
            Ok(n) => Ok(Some(n)),
            Err(_) if errno_of(n) == ENOENT => Ok(None),
            Err(_) => Err(self.error(errno_of(n))),
        }
    }

    /// Whether the key has a value.
    ///
    /// # Errors
    /// [`Error::Revoked`].
    pub fn contains_key<K: AsRef<[u8]> + ?Sized>(&self, key: &K) -> Result<bool> {
        Ok(self.found(key.as_ref())?.is_some())
    }

    /// How long an entry has left; `Some(None)`: it has no end; nothing: the key is absent.
    ///
    /// # Errors
    /// [`Error::Revoked`].
    #[allow(clippy::option_option)] // "no entry" and "no end" are two things
    pub fn ttl<K: AsRef<[u8]> + ?Sized>(&self, key: &K) -> Result<Option<Option<Duration>>> {
        Ok(self.found(key.as_ref())?.map(|info| left(&info)))
    }

    fn found(&self, key: &[u8]) -> Result<Option<sys::tslab_map_info>> {
        let mut info = sized();
        key!(key);
        // SAFETY: the key has that size, and so has the struct.
        let r = unsafe { sys::tslab_map_find(self.raw(), key.0, key.1, &mut info) };
        if r == -ENOENT {
            return Ok(None);
        }
        check(r).map(|_| Some(info))
    }

    /// A key's value, with its version, epoch and lifetime.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn get_entry<K: AsRef<[u8]> + ?Sized>(&self, key: &K) -> Result<Option<Entry>> {
        self.copied(key.as_ref(), 0, |map, key, key_size, buffer, size, info| {
            // SAFETY: as copied() says.
            unsafe { sys::tslab_map_get_with(map, key, key_size, buffer, size, info) }
        })
    }

    /// A key's value or, if [`MapOptions::stale`] keeps it, one whose time is over.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn get_stale<K: AsRef<[u8]> + ?Sized>(&self, key: &K) -> Result<Option<Entry>> {
        self.copied(key.as_ref(), sys::TSLAB_MAP_STALE, |map, key, key_size, buffer, size, info| {
            // SAFETY: as copied() says.
            unsafe { sys::tslab_map_get_with(map, key, key_size, buffer, size, info) }
        })
    }

    /// A key's value and its version, for [`Map::replace`].
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn get_version<K: AsRef<[u8]> + ?Sized>(&self, key: &K) -> Result<Option<(Vec<u8>, Version)>> {
        Ok(self.get_entry(key)?.map(|entry| (entry.value, entry.version)))
    }

    /// Deletes a key and returns the value that it had. Of several callers that take a value, one gets it.
    ///
    /// # Errors
    /// As [`Map::get`], and [`Error::ReadOnly`].
    pub fn take<K: AsRef<[u8]> + ?Sized>(&self, key: &K) -> Result<Option<Vec<u8>>> {
        Ok(self.take_entry(key)?.map(|entry| entry.value))
    }

    /// Deletes a key and returns its entry.
    ///
    /// # Errors
    /// As [`Map::take`].
    pub fn take_entry<K: AsRef<[u8]> + ?Sized>(&self, key: &K) -> Result<Option<Entry>> {
        self.copied(key.as_ref(), 0, |map, key, key_size, buffer, size, info| {
            // SAFETY: as copied() says.
            unsafe { sys::tslab_map_take(map, key, key_size, buffer, size, info) }
        })
    }

    /// `call` gets a key, room and a struct of the sizes that it is told.
    fn copied<F>(&self, key: &[u8], accept: u32, call: F) -> Result<Option<Entry>>
    where
        F: Fn(*mut sys::tslab_map, *const c_void, usize, *mut c_void, usize, *mut sys::tslab_map_info) -> isize,
    {
        let mut info: sys::tslab_map_info = sized();
        let mut value: Vec<u8> = Vec::with_capacity(256);
        info.accept = accept;
        loop {
            let n = call(
                self.raw(),
                key.as_ptr().cast(),
                key.len(),
                value.as_mut_ptr().cast(),
                value.capacity(),
                &mut info,
            );
            match errno_of(n) {
                EMSGSIZE => value.reserve_exact(usize::try_from(info.value_size).map_err(|_| Error::Damaged)?),
                ENOENT => return Ok(None),
                _ => {
                    // SAFETY: so many bytes were copied.
                    unsafe { value.set_len(self.checked(n)?) };
                    return Ok(Some(Entry::new(value, &info)));
                }
            }
        }
    }

    /// Copies a part of the value of that version, from an offset on. Returns how many bytes: fewer than the buffer has if
    /// the value ends there. The parts of a large value belong together.
    ///
    /// # Errors
    /// [`Error::Stale`]: the value was replaced, deleted or revoked; [`Error::Damaged`], [`Error::Revoked`].
    pub fn read(&self, version: Version, offset: usize, buffer: &mut [u8]) -> Result<usize> {
        // SAFETY: the buffer has that size.
        let n = unsafe { sys::tslab_map_read(self.raw(), version.0, offset, buffer.as_mut_ptr().cast(), buffer.len()) };
        self.checked(n)
    }

    /// Values of many keys. They are not those of one moment. Where entries are not in the processor's cache, it takes
    /// half the time of as many single calls.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        const EACH: usize = 512;
        let mut values = Vec::with_capacity(keys.len());
        let mut room = vec![0; EACH * keys.len().min(64)];
        for part in keys.chunks(64) {
            let mut items: Vec<_> = part
                .iter()
                .zip(room.chunks_exact_mut(EACH))
                .map(|(key, room)| item(key.as_ref(), room.as_mut_ptr(), room.len()))
                .collect();
            // SAFETY: each item has a key and a part of the room, of these sizes.
            self.checked(unsafe { sys::tslab_map_get_many(self.raw(), items.as_mut_ptr(), items.len()) })?;
            for ((key, item), room) in part.iter().zip(&items).zip(room.chunks_exact(EACH)) {
                values.push(match usize::try_from(item.result) {
                    Ok(n) => Some(room[..n].to_vec()),
                    Err(_) => self.get_other(key.as_ref(), i32::try_from(-item.result).unwrap_or(EUCLEAN))?,
                });
            }
        }
        Ok(values)
    }

    // Writing

    /// Sets a key's value, in the current epoch and with the lifetime that the map names.
    ///
    /// # Errors
    /// See [`Map`].
    #[inline]
    pub fn put<K: AsRef<[u8]> + ?Sized, V: AsRef<[u8]> + ?Sized>(&self, key: &K, value: &V) -> Result<()> {
        let value = value.as_ref();
        key!(key);
        // SAFETY: key and value have these sizes.
        check(unsafe {
            sys::tslab_map_put(self.raw(), key.0, key.1, value.as_ptr().cast(), value.len(), sys::TSLAB_EPOCH_CURRENT)
        })
        .map(drop)
    }

    /// Sets a key's value, with options.
    ///
    /// # Errors
    /// See [`Map`].
    pub fn put_with<K: AsRef<[u8]> + ?Sized, V: AsRef<[u8]> + ?Sized>(
        &self,
        key: &K,
        value: &V,
        put: Put,
    ) -> Result<()> {
        check(self.put_raw(key.as_ref(), value.as_ref(), &put.raw(sys::TSLAB_MAP_PUT, Version::ABSENT)?)).map(drop)
    }

    /// Sets a key's value if it has none: whether it had none.
    ///
    /// # Errors
    /// See [`Map`].
    pub fn insert<K: AsRef<[u8]> + ?Sized, V: AsRef<[u8]> + ?Sized>(
        &self,
        key: &K,
        value: &V,
        put: Put,
    ) -> Result<bool> {
        unless(self.put_raw(key.as_ref(), value.as_ref(), &put.raw(sys::TSLAB_MAP_INSERT, Version::ABSENT)?), EEXIST)
    }

    /// Sets a key's value if it has one: whether it had.
    ///
    /// # Errors
    /// See [`Map`].
    pub fn update<K: AsRef<[u8]> + ?Sized, V: AsRef<[u8]> + ?Sized>(
        &self,
        key: &K,
        value: &V,
        put: Put,
    ) -> Result<bool> {
        unless(self.put_raw(key.as_ref(), value.as_ref(), &put.raw(sys::TSLAB_MAP_UPDATE, Version::ABSENT)?), ENOENT)
    }

    /// Sets a key's value if the present one has this version: whether it had.
    ///
    /// # Errors
    /// See [`Map`].
    pub fn replace<K: AsRef<[u8]> + ?Sized, V: AsRef<[u8]> + ?Sized>(
        &self,
        key: &K,
        version: Version,
        value: &V,
        put: Put,
    ) -> Result<bool> {
        unless(self.put_raw(key.as_ref(), value.as_ref(), &put.raw(sys::TSLAB_MAP_REPLACE, version)?), EAGAIN)
    }

    fn put_raw(&self, key: &[u8], value: &[u8], options: &sys::tslab_map_put_options) -> i32 {
        key!(key);
        // SAFETY: key, value and options have these sizes.
        unsafe { sys::tslab_map_put_with(self.raw(), key.0, key.1, value.as_ptr().cast(), value.len(), options) }
    }

    /// Sets the values of many keys. Each has a result of its own.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::Invalid`]: the lifetime.
    pub fn put_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, entries: &[(K, V)], put: Put) -> Result<Vec<Result<()>>> {
        let options = put.raw(sys::TSLAB_MAP_PUT, Version::ABSENT)?;
        let mut items: Vec<_> = entries
            .iter()
            .map(|(key, value)| {
                let value = value.as_ref();
                item(key.as_ref(), value.as_ptr() as *mut u8, value.len())
            })
            .collect();
        // SAFETY: the items have these sizes; the call does not write to the values.
        self.checked(unsafe { sys::tslab_map_put_many(self.raw(), items.as_mut_ptr(), items.len(), &options) })?;
        Ok(items.iter().map(|item| check(i32::try_from(item.result).unwrap_or(-EUCLEAN)).map(drop)).collect())
    }

    /// Gives an entry another lifetime from now on: whether there is one.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the lifetime; [`Error::ReadOnly`], [`Error::Revoked`].
    pub fn touch<K: AsRef<[u8]> + ?Sized>(&self, key: &K, ttl: impl Into<Ttl>) -> Result<bool> {
        key!(key);
        // SAFETY: the key has that size.
        unless(unsafe { sys::tslab_map_touch(self.raw(), key.0, key.1, ttl.into().raw()?) }, ENOENT)
    }

    /// Gives an entry another lifetime from now on, and returns it with its value, in one step.
    ///
    /// # Errors
    /// As [`Map::get`] and [`Map::touch`].
    pub fn get_touch<K: AsRef<[u8]> + ?Sized>(&self, key: &K, ttl: impl Into<Ttl>) -> Result<Option<Entry>> {
        let ttl = ttl.into().raw()?;
        self.copied(key.as_ref(), 0, |map, key, key_size, buffer, size, info| {
            // SAFETY: as copied() says.
            unsafe { sys::tslab_map_get_touch(map, key, key_size, ttl, buffer, size, info) }
        })
    }

    /// A tag as it is now, for puts within an hour; it is made where it is absent. Ask before the value is computed: if the
    /// tag is invalidated after that, be it before the put, the entry is absent.
    ///
    /// # Errors
    /// See [`Map`].
    pub fn tag<K: AsRef<[u8]> + ?Sized>(&self, tag: &K) -> Result<Tag> {
        let mut handle = 0;
        key!(tag);
        // SAFETY: the tag has that size.
        check(unsafe { sys::tslab_map_tag(self.raw(), tag.0, tag.1, sys::TSLAB_EPOCH_CURRENT, &mut handle) })?;
        Ok(Tag(handle))
    }

    /// Makes all entries with this tag absent at once, in all processes: whether there was such a tag.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Revoked`].
    pub fn invalidate<K: AsRef<[u8]> + ?Sized>(&self, tag: &K) -> Result<bool> {
        key!(tag);
        // SAFETY: the tag has that size.
        unless(unsafe { sys::tslab_map_invalidate(self.raw(), tag.0, tag.1) }, ENOENT)
    }

    /// Adds to a counter and returns the sum. An absent key counts as 0.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the value was put; [`Error::Overflow`]; and see [`Map`].
    #[inline]
    pub fn add<K: AsRef<[u8]> + ?Sized>(&self, key: &K, delta: i64) -> Result<i64> {
        self.add_with(key, delta, 0, Ttl::Map)
    }

    /// Adds to a counter. An absent key counts as `initial`, and the counter that the call makes then has the lifetime.
    ///
    /// # Errors
    /// As [`Map::add`].
    pub fn add_with<K: AsRef<[u8]> + ?Sized>(
        &self,
        key: &K,
        delta: i64,
        initial: i64,
        ttl: impl Into<Ttl>,
    ) -> Result<i64> {
        let mut sum = 0;
        key!(key);
        // SAFETY: the key has that size.
        check(unsafe { sys::tslab_map_add(self.raw(), key.0, key.1, delta, initial, ttl.into().raw()?, &mut sum) })?;
        Ok(sum)
    }

    /// Sets a counter, or makes one. One that is there keeps its lifetime.
    ///
    /// # Errors
    /// As [`Map::add`].
    pub fn set_counter<K: AsRef<[u8]> + ?Sized>(&self, key: &K, number: i64, ttl: impl Into<Ttl>) -> Result<()> {
        let mut options: sys::tslab_map_add_options = sized();
        options.mode = sys::TSLAB_MAP_ADD_SET;
        options.ttl_ms = ttl.into().raw()?;
        key!(key);
        // SAFETY: the key has that size, and so has the struct.
        check(unsafe { sys::tslab_map_add_with(self.raw(), key.0, key.1, number, &options, ptr::null_mut()) }).map(drop)
    }

    /// Adds to the counter of this version, without a look at its key.
    ///
    /// # Errors
    /// [`Error::Stale`]: it was deleted or replaced, or its time is over; [`Error::Invalid`]: that is no counter.
    #[inline]
    pub fn add_at(&self, counter: Version, delta: i64) -> Result<i64> {
        let mut sum = 0;
        // SAFETY: the map is open, and any number will do.
        check(unsafe { sys::tslab_map_add_at(self.raw(), counter.0, delta, &mut sum) })?;
        Ok(sum)
    }

    /// Takes tokens from the key's bucket, which gets so many a second and holds up to `burst`. Returns nothing or, if
    /// there are too few, the time until there are enough.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the rate is out of range, or the value is no bucket; and see [`Map`].
    pub fn limit<K: AsRef<[u8]> + ?Sized>(
        &self,
        key: &K,
        per_second: f64,
        burst: u32,
        cost: u32,
    ) -> Result<Option<Duration>> {
        let mut retry_ms = 0;
        key!(key);
        // SAFETY: the key has that size.
        let r =
            check(unsafe { sys::tslab_map_limit(self.raw(), key.0, key.1, per_second, burst, cost, &mut retry_ms) })?;
        Ok(if r == 1 { Some(Duration::from_millis(retry_ms)) } else { None })
    }

    /// Deletes a key: whether it was there.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Revoked`].
    pub fn delete<K: AsRef<[u8]> + ?Sized>(&self, key: &K) -> Result<bool> {
        key!(key);
        // SAFETY: the key has that size.
        unless(unsafe { sys::tslab_map_delete(self.raw(), key.0, key.1) }, ENOENT)
    }

    /// Deletes a key if its value, or a claim, has this version: whether it had.
    ///
    /// # Errors
    /// As [`Map::delete`].
    pub fn delete_version<K: AsRef<[u8]> + ?Sized>(&self, key: &K, version: Version) -> Result<bool> {
        key!(key);
        // SAFETY: the key has that size.
        match unsafe { sys::tslab_map_delete_version(self.raw(), key.0, key.1, version.0) } {
            r if r == -ENOENT || r == -EAGAIN => Ok(false),
            r => check(r).map(|_| true),
        }
    }

    /// Deletes all entries of an epoch, and returns how many. Close the epoch first.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Revoked`].
    pub fn expire(&self, epoch: Epoch) -> Result<usize> {
        // SAFETY: the map is open.
        self.checked(unsafe { sys::tslab_map_expire(self.raw(), epoch.raw()) })
    }

    /// Deletes all entries that are there when it begins, claims and stale values, too. Returns how many.
    ///
    /// # Errors
    /// As [`Map::expire`].
    pub fn clear(&self) -> Result<usize> {
        self.expire(Epoch(sys::TSLAB_MAP_EPOCH_ALL))
    }

    // Waiting

    /// Waits until a claim on the key is no more, or for so long: whether it is no more.
    ///
    /// # Errors
    /// [`Error::Deadlock`]: this thread has the claim; [`Error::Revoked`].
    pub fn wait<K: AsRef<[u8]> + ?Sized>(&self, key: &K, claim: Version, timeout: Duration) -> Result<bool> {
        let end = std::time::Instant::now().checked_add(timeout);
        key!(key);
        loop {
            let left = end.map_or(u32::MAX - 1, |end| millis(end.saturating_duration_since(std::time::Instant::now())));
            // SAFETY: the key has that size.
            match unsafe { sys::tslab_map_wait(self.raw(), key.0, key.1, claim.0, left.min(u32::MAX - 1)) } {
                r if r == -EINTR => {} // a signal handler ran
                r => return unless(r, ETIMEDOUT),
            }
        }
    }

    pub(crate) fn claim_raw(&self, key: &[u8], limit: Duration) -> Result<Claimed> {
        let mut version = 0;
        let limit = millis(limit);
        key!(key);
        // SAFETY: the key has that size.
        let r = unsafe {
            sys::tslab_map_claim_for(self.raw(), key.0, key.1, sys::TSLAB_EPOCH_CURRENT, limit, &mut version)
        };
        match r {
            0 => Ok(Claimed::Mine(Version(version))),
            r if r == -crate::error::EBUSY => Ok(Claimed::Other(Version(version))),
            r if r == -EEXIST => Ok(Claimed::HasValue),
            r => Err(Error::new(-r)),
        }
    }

    pub(crate) fn extend_raw(&self, key: &[u8], claim: Version, limit: Duration) -> Result<Option<Version>> {
        let mut version = claim.0;
        let limit = millis(limit);
        key!(key);
        // SAFETY: the key has that size.
        let r = unsafe { sys::tslab_map_claim_extend(self.raw(), key.0, key.1, limit, &mut version) };
        Ok(if unless(r, EAGAIN)? { Some(Version(version)) } else { None })
    }

    // Walking

    /// The next entry of a walk, and nothing at its end. The walk may run beside writers: an entry that is there from the
    /// first step to the last is met once.
    ///
    /// # Errors
    /// [`Error::Damaged`]: a stray write has damaged this entry, and the next step goes on behind it; [`Error::Revoked`].
    pub fn step(&self, cursor: &mut Cursor) -> Result<Option<(Vec<u8>, Entry)>> {
        let mut room = vec![0; STEP_ROOM];
        loop {
            let mut at = sys::tslab_map_cursor { at: cursor.0 };
            let mut info: sys::tslab_map_info = sized();
            // SAFETY: room and struct have these sizes.
            let r =
                unsafe { sys::tslab_map_next(self.raw(), &mut at, room.as_mut_ptr().cast(), room.len(), &mut info) };
            cursor.0 = at.at;
            if self.checked(r as isize)? == 0 {
                return Ok(None);
            }
            let key_size = info.key_size as usize;
            if info.flags & sys::TSLAB_MAP_KEY_ONLY == 0 {
                let value = room[key_size..key_size + usize::try_from(info.value_size).unwrap_or(0)].to_vec();
                room.truncate(key_size);
                room.shrink_to_fit();
                return Ok(Some((room, Entry::new(value, &info))));
            }
            // A large value, or the one that came after it. Where it is gone, the entry is, too.
            if let Some(entry) = self.get_entry(&room[..key_size])? {
                room.truncate(key_size);
                room.shrink_to_fit();
                return Ok(Some((room, entry)));
            }
        }
    }

    /// All entries, in no order that means anything: see [`Map::step`].
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter { map: self, cursor: Cursor::default(), is_over: false }
    }

    /// Counts the entries by a walk through all of them.
    ///
    /// # Errors
    /// [`Error::Revoked`].
    pub fn count(&self) -> Result<usize> {
        // SAFETY: the map is open.
        self.checked(unsafe { sys::tslab_map_count(self.raw()) })
    }

    /// Counts of the map since it was made, without a walk.
    ///
    /// # Errors
    /// [`Error::Revoked`].
    pub fn stats(&self) -> Result<crate::MapStats> {
        let mut stats: sys::tslab_map_statistics = sized();
        // SAFETY: the struct has its size.
        check(unsafe { sys::tslab_map_statistics(self.raw(), &mut stats) }).map(|_| stats)
    }
}

fn item(key: &[u8], value: *mut u8, value_size: usize) -> sys::tslab_map_item {
    sys::tslab_map_item {
        key: key.as_ptr().cast(),
        key_size: key.len(),
        value: value.cast(),
        value_size,
        result: 0,
        version: 0,
    }
}

/// Whether a call succeeded; false where it is that errno.
#[inline]
fn unless(r: i32, errno: i32) -> Result<bool> {
    if r == -errno {
        return Ok(false);
    }
    check(r).map(|_| true)
}

/// All entries of a map, see [`Map::iter`].
pub struct Iter<'map> {
    map: &'map Map,
    cursor: Cursor,
    is_over: bool,
}

impl Iterator for Iter<'_> {
    type Item = Result<(Vec<u8>, Entry)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let item = self.map.step(&mut self.cursor).transpose();
        self.is_over = !matches!(item, Some(Ok(_) | Err(Error::Damaged)));
        item
    }
}

impl<'map> IntoIterator for &'map Map {
    type Item = Result<(Vec<u8>, Entry)>;
    type IntoIter = Iter<'map>;

    fn into_iter(self) -> Iter<'map> {
        self.iter()
    }
}

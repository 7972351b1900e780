use std::ffi::CString;
use std::mem::{self, MaybeUninit};
use std::os::raw::c_char;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use crate::epoch::Epoch;
use crate::error::{check, check_size, Error, Result, ECONNREFUSED, ENOENT};
use crate::handle::{Handle, Plain};
use crate::object::{Object, Pending};
use crate::text::Text;
use tslab_sys as sys;

/// The largest class that a pool can have.
pub(crate) const CLASS_MAX: usize = 4096;

/// A struct of the library, of zeros, with its size in the first member.
pub(crate) fn sized<T: HasSize>() -> T {
    T::new()
}

/// The structs that begin with their size.
pub(crate) trait HasSize {
    fn new() -> Self;
}

macro_rules! sized_structs {
    ($($name:ident)*) => {$(
        impl HasSize for sys::$name {
            fn new() -> Self {
                // SAFETY: numbers, arrays of them, bools, and pointers that may be null: zeros are a value.
                let mut it: Self = unsafe { mem::zeroed() };
                it.size = mem::size_of::<Self>();
                it
            }
        }
    )*};
}
sized_structs!(tslab_options tslab_epoch_info tslab_stats tslab_count tslab_thread_stats tslab_map_options
               tslab_map_info tslab_map_put_options tslab_map_add_options tslab_map_statistics);

/// Whether threads keep slots for allocations to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotCache {
    /// Where that pays.
    Adaptive,
    /// Always.
    On,
    /// Never.
    Off,
}

/// How to open or create a pool.
///
/// ```no_run
/// let pool = tslab::Options::new().reader(true).open("web")?;
/// # Ok::<(), tslab::Error>(())
/// ```
#[derive(Clone)]
pub struct Options {
    raw: sys::tslab_options,
    comm: Option<CString>,
}

// SAFETY: the pointers of `raw` are null until a call fills in that of `comm`.
unsafe impl Send for Options {}
// SAFETY: as above; nothing changes behind a shared reference.
unsafe impl Sync for Options {}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// The defaults, which are zeros: see `struct tslab_options` in tslab(3).
    #[must_use]
    pub fn new() -> Self {
        Options { raw: sized(), comm: None }
    }

    /// Maps the pool read-only: allocating and freeing is [`Error::ReadOnly`].
    #[must_use]
    pub fn reader(mut self, reader: bool) -> Self {
        self.raw.flags = if reader { sys::TSLAB_READER } else { 0 };
        self
    }

    /// Whether threads keep slots for allocations to come.
    #[must_use]
    pub fn cache(mut self, cache: SlotCache) -> Self {
        self.raw.cache = match cache {
            SlotCache::Adaptive => sys::TSLAB_CACHE_ADAPTIVE,
            SlotCache::On => sys::TSLAB_CACHE_ON,
            SlotCache::Off => sys::TSLAB_CACHE_OFF,
        };
        self
    }

    /// The time limit of each answer of the daemon; 5 seconds where none is named.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.raw.timeout_ms = millis(timeout).max(1);
        self
    }

    /// The name that tslabctl shows for this process, at most 15 bytes.
    ///
    /// # Panics
    /// If the name has a 0.
    #[must_use]
    pub fn comm(mut self, name: &str) -> Self {
        self.comm = Some(CString::new(name).expect("a name without 0"));
        self
    }

    /// [`Options::create`]: the room for objects.
    #[must_use]
    pub fn arena_bytes(mut self, bytes: u64) -> Self {
        self.raw.arena_bytes = bytes;
        self
    }

    /// [`Options::create`]: the memory that free slabs keep.
    #[must_use]
    pub fn retain_bytes(mut self, bytes: u64) -> Self {
        self.raw.retain_bytes = bytes;
        self
    }

    /// [`Options::create`]: the records, one for each thread and one for each process.
    #[must_use]
    pub fn threads(mut self, n: u32) -> Self {
        self.raw.n_threads = n;
        self
    }

    /// [`Options::create`]: 2 to 64 epochs.
    #[must_use]
    pub fn epochs(mut self, n: u32) -> Self {
        self.raw.n_epochs = n;
        self
    }

    /// [`Options::create`]: the sizes of objects, rising multiples of 16 from 64 to 4096.
    ///
    /// # Panics
    /// If there are more than 32.
    #[must_use]
    pub fn classes(mut self, sizes: &[u32]) -> Self {
        self.raw.classes[..sizes.len()].copy_from_slice(sizes);
        self.raw.n_classes = u32::try_from(sizes.len()).unwrap_or(u32::MAX);
        self
    }

    /// Opens a pool of a daemon, see [`Pool::open`].
    ///
    /// # Errors
    /// As [`Pool::open`].
    pub fn open<S: AsRef<str> + ?Sized>(&self, pool: &S) -> Result<Pool> {
        let pool = pool.as_ref();
        let name = Text::new(pool)?;
        self.opened(Some(pool), name.as_ptr())
    }

    /// Opens the pool that `$TSLAB_POOL` names, else "default".
    ///
    /// # Errors
    /// As [`Pool::open`].
    pub fn open_default(&self) -> Result<Pool> {
        self.opened(None, ptr::null())
    }

    fn opened(&self, name: Option<&str>, raw_name: *const c_char) -> Result<Pool> {
        let options = self.filled();
        // SAFETY: the texts end with 0, and the options have their size.
        let raw = new_pool(|ret| unsafe { sys::tslab_open(ret, raw_name, &options) }).map_err(|errno| match errno {
            ENOENT | ECONNREFUSED => Error::NoDaemon(name.unwrap_or("default").into()),
            _ => Error::new(errno),
        })?;
        Ok(Pool::new(raw, self.clone(), name.map_or(Source::Default, |name| Source::Named(name.into()))))
    }

    /// Creates a private pool, see [`Pool::create`].
    ///
    /// # Errors
    /// As [`Pool::create`].
    pub fn create(&self) -> Result<Pool> {
        let options = self.filled();
        // SAFETY: the options have their size.
        let raw = new_pool(|ret| unsafe { sys::tslab_create(ret, &options) }).map_err(Error::new)?;
        Ok(Pool::new(raw, self.clone(), Source::Created))
    }

    fn filled(&self) -> sys::tslab_options {
        sys::tslab_options { comm: self.comm.as_ref().map_or(ptr::null(), |name| name.as_ptr()), ..self.raw }
    }
}

fn new_pool(call: impl Fn(*mut *mut sys::tslab) -> i32) -> std::result::Result<NonNull<sys::tslab>, i32> {
    let mut raw = ptr::null_mut();
    let r = call(&mut raw);
    NonNull::new(raw).filter(|_| r == 0).ok_or(-r)
}

/// A pointer that the library returned with success.
pub(crate) fn non_null<T>(pointer: *mut T) -> NonNull<T> {
    NonNull::new(pointer).expect("libtslab returned a null pointer")
}

/// Milliseconds for the library, rounded up.
pub(crate) fn long_millis(time: Duration) -> u64 {
    u64::try_from((time.as_nanos() + 999_999) / 1_000_000).unwrap_or(u64::MAX)
}

pub(crate) fn millis(time: Duration) -> u32 {
    u32::try_from(long_millis(time)).unwrap_or(u32::MAX)
}

/// Where the pool came from.
enum Source {
    Created,
    Default,
    Named(Box<str>),
}

struct Opened {
    raw: NonNull<sys::tslab>,
    options: Options,
    source: Source,
    #[cfg(feature = "tokio")]
    waiter: crate::wait::Slot,
}

// SAFETY: any thread may make any call at any time (<tslab.h>, "Threads").
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

impl Drop for Opened {
    fn drop(&mut self) {
        #[cfg(feature = "tokio")]
        drop(self.waiter.get_mut().map(Option::take));
        // SAFETY: maps, domains and pointers into the pool keep a `Pool`, so this is the last call.
        unsafe { sys::tslab_close(self.raw.as_ptr()) };
    }
}

/// An open pool. Clones are the same pool, and the last one closes it in this process.
///
/// ```
/// let pool = tslab::Pool::create()?;      // or Pool::open("web"), which other programs share
/// let handle = pool.put(b"hello")?;
/// assert_eq!(&pool.read(handle)?[..5], b"hello");
/// pool.free(handle)?;
/// assert!(matches!(pool.read(handle), Err(tslab::Error::Stale)));
/// # Ok::<(), tslab::Error>(())
/// ```
///
/// Any thread may use it. A forked child goes on using its parent's; its first call that changes anything attaches it, and
/// may therefore fail as opening a pool does.
#[derive(Clone)]
pub struct Pool(Arc<Opened>);

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0.source {
            Source::Created => f.write_str("Pool(private)"),
            Source::Default => f.write_str("Pool(default)"),
            Source::Named(name) => write!(f, "Pool({name:?})"),
        }
    }
}

impl Pool {
    fn new(raw: NonNull<sys::tslab>, options: Options, source: Source) -> Self {
        Pool(Arc::new(Opened {
            raw,
            options,
            source,
            #[cfg(feature = "tokio")]
            waiter: crate::wait::Slot::default(),
        }))
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn waiter(&self) -> &crate::wait::Slot {
        &self.0.waiter
    }

    /// Opens a pool of a daemon: a name, or the path of its socket.
    ///
    /// # Errors
    /// [`Error::NoDaemon`]; [`Error::Invalid`]: not a name; [`Error::Io`]: no permission; and the others of
    /// `tslab_open(3)`.
    pub fn open<S: AsRef<str> + ?Sized>(pool: &S) -> Result<Self> {
        Options::new().open(pool)
    }

    /// Creates a pool that this process and the children that it forks later share, without a daemon.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::NoMemory`], [`Error::Io`].
    pub fn create() -> Result<Self> {
        Options::new().create()
    }

    /// For calls of [`tslab_sys`]; stays owned.
    #[must_use]
    #[inline]
    pub fn raw(&self) -> *mut sys::tslab {
        self.0.raw.as_ptr()
    }

    /// Whether the daemon has another arena than this one by now: [`Pool::reopen`].
    #[must_use]
    pub fn stale(&self) -> bool {
        // SAFETY: the pool is open.
        unsafe { sys::tslab_stale(self.raw()) }
    }

    /// Opens the pool anew, as when it is stale.
    ///
    /// # Errors
    /// As [`Pool::open`]; [`Error::Invalid`]: it is a private pool.
    pub fn reopen(&self) -> Result<Self> {
        match &self.0.source {
            Source::Named(name) => self.0.options.open(name),
            Source::Default => self.0.options.open_default(),
            Source::Created => Err(Error::Invalid),
        }
    }

    /// Whether the pool was opened as a reader.
    #[must_use]
    pub fn is_reader(&self) -> bool {
        self.0.options.raw.flags & sys::TSLAB_READER != 0
    }

    /// The largest size that [`Pool::alloc`] takes.
    #[must_use]
    pub fn size_max(&self) -> usize {
        // SAFETY: the pool is open.
        unsafe { sys::tslab_size_max(self.raw()) }
    }

    /// The room for objects in bytes.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        // SAFETY: the pool is open.
        unsafe { sys::tslab_capacity(self.raw()) }
    }

    /// Allocates an object in the current epoch. It is everyone's, and stays until somebody frees its handle. Its bytes
    /// are those of some object before it.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::NoMemory`], [`Error::Invalid`]: size 0; [`Error::ReadOnly`].
    #[inline]
    pub fn alloc(&self, size: usize) -> Result<Handle> {
        self.alloc_in(size, Epoch::CURRENT)
    }

    /// Allocates an object in an epoch.
    ///
    /// # Errors
    /// As [`Pool::alloc`]; [`Error::EpochClosed`], [`Error::Stale`]: the era is over.
    #[inline]
    pub fn alloc_in(&self, size: usize, epoch: Epoch) -> Result<Handle> {
        let mut handle = 0;
        // SAFETY: the pool is open; no object is asked for.
        check(unsafe { sys::tslab_alloc(self.raw(), size, epoch.0, &mut handle, ptr::null_mut()) })?;
        Ok(Handle::returned(handle))
    }

    /// Allocates up to n objects of one size. They are fewer if memory runs out on the way.
    ///
    /// # Errors
    /// As [`Pool::alloc_in`], if there is not even one.
    pub fn alloc_batch(&self, size: usize, n: usize, epoch: Epoch) -> Result<Vec<Handle>> {
        let mut numbers = vec![0; n];
        // SAFETY: there is room for n numbers.
        let n = check_size(unsafe {
            sys::tslab_alloc_batch(self.raw(), size, epoch.0, numbers.as_mut_ptr(), numbers.len())
        })?;
        Ok(numbers[..n].iter().map(|number| Handle::returned(*number)).collect())
    }

    /// Frees an object, which any process may have allocated. Of several that free one handle, one succeeds.
    ///
    /// # Errors
    /// [`Error::Stale`]: it was freed before; [`Error::ReadOnly`].
    #[inline]
    pub fn free<T: ?Sized>(&self, handle: Handle<T>) -> Result<()> {
        // SAFETY: the pool is open, and any number will do.
        check(unsafe { sys::tslab_free(self.raw(), handle.raw()) }).map(drop)
    }

    /// Frees objects, and returns how many were not stale.
    ///
    /// # Errors
    /// [`Error::ReadOnly`].
    pub fn free_batch<T: ?Sized>(&self, handles: &[Handle<T>]) -> Result<usize> {
        // A handle is its number in memory, but nothing promises that to other crates; they are few.
        let numbers: Vec<u64> = handles.iter().map(|handle| handle.raw()).collect();
        // SAFETY: there are so many numbers.
        check_size(unsafe { sys::tslab_free_batch(self.raw(), numbers.as_ptr(), numbers.len()) })
    }

    /// Allocates an object that belongs to this thread until it is published: see [`Pending`].
    ///
    /// # Errors
    /// As [`Pool::alloc_in`]; [`Error::TooManyPending`]: 64 are pending in this thread.
    pub fn pending(&self, size: usize, epoch: Epoch) -> Result<Pending<'_>> {
        let (mut handle, mut object) = (0, ptr::null_mut());
        // SAFETY: the pool is open.
        check(unsafe { sys::tslab_alloc_pending(self.raw(), size, epoch.0, &mut handle, &mut object) })?;
        let object = non_null(object.cast());
        // SAFETY: the object has that size, and is this thread's.
        Ok(unsafe { Pending::new(self, handle, object, size) })
    }

    /// Makes an object of these bytes. A process that is killed meanwhile leaves nothing behind.
    ///
    /// # Errors
    /// As [`Pool::alloc`]; [`Error::TooManyPending`].
    pub fn put(&self, bytes: &[u8]) -> Result<Handle> {
        self.put_in(bytes, Epoch::CURRENT)
    }

    /// Makes an object of these bytes in an epoch.
    ///
    /// # Errors
    /// As [`Pool::alloc_in`]; [`Error::TooManyPending`].
    pub fn put_in(&self, bytes: &[u8], epoch: Epoch) -> Result<Handle> {
        let mut pending = self.pending(bytes.len(), epoch)?;
        pending.write(0, bytes);
        pending.publish()
    }

    /// Makes an object of a plain value.
    ///
    /// # Errors
    /// As [`Pool::put`].
    pub fn make<T: Plain>(&self, value: &T) -> Result<Handle<T>> {
        self.make_in(value, Epoch::CURRENT)
    }

    /// Makes an object of a plain value in an epoch.
    ///
    /// # Errors
    /// As [`Pool::put_in`].
    pub fn make_in<T: Plain>(&self, value: &T, epoch: Epoch) -> Result<Handle<T>> {
        // SAFETY: a plain value is its bytes.
        let bytes = unsafe { std::slice::from_raw_parts(ptr::addr_of!(*value).cast(), mem::size_of::<T>()) };
        Ok(self.put_in(bytes, epoch)?.cast())
    }

    /// Copies an object out, all bytes of its class, and checks that it was still live after the last one. It does not
    /// notice that another program writes into it: programs replace objects rather than to change them.
    ///
    /// # Errors
    /// [`Error::Stale`].
    pub fn read<T: ?Sized>(&self, handle: Handle<T>) -> Result<Vec<u8>> {
        let mut room = MaybeUninit::<[u8; CLASS_MAX]>::uninit();
        let n = self.read_into(handle.raw(), &mut room)?;
        // SAFETY: so many bytes were copied.
        Ok(unsafe { std::slice::from_raw_parts(room.as_ptr().cast::<u8>(), n) }.to_vec())
    }

    /// Copies a plain value out, as [`Pool::read`] does.
    ///
    /// # Errors
    /// [`Error::Stale`]; [`Error::Invalid`]: the object is smaller than a `T`.
    pub fn load<T: Plain>(&self, handle: Handle<T>) -> Result<T> {
        let mut room = MaybeUninit::<[u8; CLASS_MAX]>::uninit();
        if self.read_into(handle.raw(), &mut room)? < mem::size_of::<T>() {
            return Err(Error::Invalid);
        }
        // SAFETY: any bytes are a plain value, and so many were copied.
        Ok(unsafe { room.as_ptr().cast::<T>().read_unaligned() })
    }

    fn read_into(&self, handle: u64, room: &mut MaybeUninit<[u8; CLASS_MAX]>) -> Result<usize> {
        // SAFETY: the room has that size.
        check_size(unsafe { sys::tslab_read(self.raw(), handle, room.as_mut_ptr().cast(), CLASS_MAX) })
    }

    /// Finds an object, for work in place: see [`Object`].
    ///
    /// # Errors
    /// [`Error::Stale`].
    pub fn get<T: ?Sized>(&self, handle: Handle<T>) -> Result<Object<'_>> {
        let (mut object, mut size) = (ptr::null_mut(), 0);
        // SAFETY: the pool is open, and any number will do.
        check(unsafe { sys::tslab_get(self.raw(), handle.raw(), &mut object, &mut size) })?;
        let object = non_null(object.cast());
        // SAFETY: the address stays mapped as long as the pool is open.
        Ok(unsafe { Object::new(self, object, size) })
    }

    /// Gives back the slots that threads of all processes keep for allocations to come.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], and those of attaching.
    pub fn drain(&self) -> Result<()> {
        // SAFETY: the pool is open.
        check(unsafe { sys::tslab_drain(self.raw()) }).map(drop)
    }

    /// Private pools: repairs the pool after processes died. Returns how many were repaired.
    ///
    /// # Errors
    /// [`Error::Busy`]; [`Error::Io`]: a daemon's pool, in which the daemon does it.
    pub fn reap(&self) -> Result<u32> {
        // SAFETY: the pool is open.
        check(unsafe { sys::tslab_reap(self.raw()) })
    }

    /// Private pools: the process that does control work now.
    ///
    /// # Errors
    /// [`Error::Io`]: a daemon's pool, in which the daemon does it.
    pub fn control_owner(&self) -> Result<Option<u32>> {
        // SAFETY: the pool is open.
        check(unsafe { sys::tslab_control_owner(self.raw()) }).map(|pid| Some(pid).filter(|pid| *pid != 0))
    }

    /// Looks a named root up: the handle that was set last, which may be stale.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the name is empty or longer than 47 bytes.
    pub fn root_get<T: ?Sized>(&self, name: &str) -> Result<Option<Handle<T>>> {
        let (name, mut handle) = (Text::new(name)?, 0);
        // SAFETY: the name ends with a 0.
        let r = unsafe { sys::tslab_root_get(self.raw(), name.as_ptr(), &mut handle) };
        if r == -ENOENT {
            return Ok(None);
        }
        check(r).map(|_| Handle::from_raw(handle))
    }

    /// Sets a named root if it is `expected`; nothing means that there is no such root.
    ///
    /// # Errors
    /// [`Error::Changed`]: it is not; [`Error::NoSpace`]: 255 names are in use; [`Error::Invalid`],
    /// [`Error::ReadOnly`].
    pub fn root_set<T: ?Sized>(
        &self,
        name: &str,
        expected: Option<Handle<T>>,
        handle: Option<Handle<T>>,
    ) -> Result<()> {
        let (name, number) = (Text::new(name)?, |h: Option<Handle<T>>| h.map_or(0, Handle::raw));
        // SAFETY: the name ends with a 0.
        check(unsafe { sys::tslab_root_set(self.raw(), name.as_ptr(), number(expected), number(handle)) }).map(drop)
    }

    /// Counts the pool, by a walk through the slabs in use.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn stats(&self) -> Result<crate::Stats> {
        let mut stats: sys::tslab_stats = sized();
        // SAFETY: the struct has its size.
        check(unsafe { sys::tslab_stats(self.raw(), &mut stats) }).map(|_| stats)
    }

    /// Counts the class that objects of that size are in.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Invalid`]: size 0; [`Error::NoMemory`].
    pub fn class_stats(&self, size: usize) -> Result<crate::Count> {
        let mut count: sys::tslab_count = sized();
        // SAFETY: the struct has its size.
        check(unsafe { sys::tslab_class_stats(self.raw(), size, &mut count) }).map(|_| count)
    }

    /// Counts of this thread.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], and those of attaching.
    pub fn thread_stats(&self) -> Result<crate::ThreadStats> {
        let mut stats: sys::tslab_thread_stats = sized();
        // SAFETY: the struct has its size.
        check(unsafe { sys::tslab_thread_stats(self.raw(), &mut stats) }).map(|_| stats)
    }
}

/// The version of the library, like "0.1.0".
#[must_use]
pub fn version() -> &'static str {
    // SAFETY: a constant text.
    unsafe { std::ffi::CStr::from_ptr(sys::tslab_version()) }.to_str().unwrap_or_default()
}

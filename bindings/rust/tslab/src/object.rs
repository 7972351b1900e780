//! Objects in place, and objects that are pending.
#![allow(clippy::cast_ptr_alignment)] // objects are aligned to 16

use std::marker::PhantomData;
use std::mem;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{check, Error, Result};
use crate::handle::Handle;
use crate::pool::Pool;
use crate::process;
use tslab_sys as sys;

const WORD: usize = mem::size_of::<u64>();

/// An object in place.
///
/// Other processes, and other threads of this one, may write to the memory at any time, and may free the object, whose
/// memory then goes to others. So safe code touches it by atomic words alone: no mixture of sizes, and never a reference
/// to plain bytes. [`Pool::read`] and [`Pool::load`] copy, and check.
///
/// ```
/// use std::sync::atomic::Ordering::Relaxed;
///
/// let pool = tslab::Pool::create()?;
/// let handle = pool.make(&[0u64; 2])?;
/// let object = pool.get(handle)?;
/// object.words().expect("not a reader")[1].fetch_add(5, Relaxed);
/// assert_eq!(pool.load(handle)?, [0, 5]);
/// # Ok::<(), tslab::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Object<'pool> {
    address: NonNull<u8>,
    size: usize,
    pool: &'pool Pool,
}

// SAFETY: an address that is good in all threads, as the pool is.
unsafe impl Send for Object<'_> {}
// SAFETY: as above; its memory is touched by atomic words.
unsafe impl Sync for Object<'_> {}

impl<'pool> Object<'pool> {
    /// # Safety
    /// The address is aligned to 16, and so many bytes behind it stay mapped as long as the pool is open.
    pub(crate) unsafe fn new(pool: &'pool Pool, address: NonNull<u8>, size: usize) -> Self {
        Object { address, size, pool }
    }

    /// The size of the object's class, a multiple of 16.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // no object is empty
    pub fn len(self) -> usize {
        self.size
    }

    /// Its address in this process, aligned to 16, for unsafe code. It is good as long as nobody frees the object, which
    /// programs must agree on.
    #[must_use]
    pub fn as_ptr(self) -> *mut u8 {
        self.address.as_ptr()
    }

    /// Its memory as atomic words; nothing in a pool that was opened as a reader, where a store would be a fault.
    #[must_use]
    pub fn words(self) -> Option<&'pool [AtomicU64]> {
        if self.pool.is_reader() {
            return None;
        }
        // SAFETY: aligned, mapped as long as the pool, and safe code touches it by such words alone.
        Some(unsafe { std::slice::from_raw_parts(self.address.as_ptr().cast(), self.size / WORD) })
    }

    /// Loads a word, also in a reader's pool.
    ///
    /// # Panics
    /// If there are not so many words.
    #[must_use]
    pub fn load(self, index: usize, order: Ordering) -> u64 {
        assert!(index < self.size / WORD, "word {index} of an object of {} bytes", self.size);
        // SAFETY: as in words(); loads of words are loads also in memory that is read-only.
        unsafe { &*self.address.as_ptr().cast::<AtomicU64>().add(index) }.load(order)
    }
}

/// Stores bytes at an offset by atomic words. Bytes beside them keep their values.
///
/// # Safety
/// `address` is aligned to 8, and the words that the bytes are in are mapped and may be written.
unsafe fn store_bytes(address: *mut u8, mut offset: usize, mut bytes: &[u8]) {
    let words = address.cast::<AtomicU64>();
    while !bytes.is_empty() {
        let (word, skip) = (&*words.add(offset / WORD), offset % WORD);
        let n = bytes.len().min(WORD - skip);
        let mut value = if n == WORD { [0; WORD] } else { word.load(Ordering::Relaxed).to_ne_bytes() };
        value[skip..skip + n].copy_from_slice(&bytes[..n]);
        word.store(u64::from_ne_bytes(value), Ordering::Relaxed);
        offset += n;
        bytes = &bytes[n..];
    }
}

/// An object that belongs to the thread that allocated it, until it is published. If it is dropped before, or the thread
/// or its process ends, it is freed.
///
/// ```
/// let pool = tslab::Pool::create()?;
/// let mut pending = pool.pending(100, tslab::Epoch::CURRENT)?;
/// pending.write(0, b"all or nothing");
/// let handle = pending.publish()?;
/// assert_eq!(&pool.read(handle)?[..14], b"all or nothing");
/// # Ok::<(), tslab::Error>(())
/// ```
///
/// It cannot go to another thread: [`Pending::share`] makes one that can.
pub struct Pending<'pool> {
    pool: &'pool Pool,
    held: Held,
    _thread: PhantomData<*mut ()>,
}

struct Held {
    handle: Handle,
    address: NonNull<u8>,
    size: usize,
    process: u64,
}

impl Held {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let fits = offset.checked_add(bytes.len()).map_or(false, |end| end <= self.size);
        assert!(fits, "{} bytes at {offset} of an object of {} bytes", bytes.len(), self.size);
        // SAFETY: classes are multiples of 16, so the last word is in the object. If somebody frees this handle, which
        // safe code can do, the words are those of another object, which these stores spoil, but nothing else.
        unsafe { store_bytes(self.address.as_ptr(), offset, bytes) }
    }

    /// In a forked child this is a copy, and the object is its parent's.
    fn free(&self, pool: &Pool) {
        if self.process == process::number() {
            drop(pool.free(self.handle));
        }
    }
}

impl<'pool> Pending<'pool> {
    /// # Safety
    /// The object is pending in this thread, and has that size.
    pub(crate) unsafe fn new(pool: &'pool Pool, handle: u64, address: NonNull<u8>, size: usize) -> Self {
        let held = Held { handle: Handle::returned(handle), address, size, process: process::number() };
        Pending { pool, held, _thread: PhantomData }
    }

    /// Names the object, which is not to be used by others before it is published.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.held.handle
    }

    /// The address of the object, for unsafe code: nobody else may free it, and this object must be there, as long as it
    /// is used.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.held.address.as_ptr()
    }

    /// Stores bytes at an offset.
    ///
    /// # Panics
    /// If the object ends before.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.held.write(offset, bytes);
    }

    /// Makes the object everyone's.
    ///
    /// # Errors
    /// [`Error::NotFound`]: somebody freed it, or this is a forked child.
    pub fn publish(self) -> Result<Handle> {
        let handle = self.held.handle;
        // SAFETY: the pool is open, and any number will do.
        check(unsafe { sys::tslab_publish(self.pool.raw(), handle.raw()) })?;
        mem::forget(self);
        Ok(handle)
    }

    /// Lets all threads of this process publish it, as tasks of async runtimes need. It is freed if the process ends.
    ///
    /// # Errors
    /// [`Error::TooManyPending`]: 64 objects of this process are shared and pending; the object is freed.
    pub fn share(self) -> Result<SharedPending> {
        // SAFETY: the pool is open, and any number will do.
        check(unsafe { sys::tslab_pending_share(self.pool.raw(), self.held.handle.raw()) })?;
        let held = Held { ..self.held };
        let shared = SharedPending { pool: self.pool.clone(), held };
        mem::forget(self);
        Ok(shared)
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.held.free(self.pool);
    }
}

/// An object that any thread of this process can publish. If it is dropped before, it is freed.
pub struct SharedPending {
    pool: Pool,
    held: Held,
}

// SAFETY: the library lets all threads of the process publish or free it, and its memory is touched by atomic words.
unsafe impl Send for SharedPending {}
// SAFETY: shared references only tell the handle and the address.
unsafe impl Sync for SharedPending {}

impl SharedPending {
    /// Names the object.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.held.handle
    }

    /// Stores bytes at an offset.
    ///
    /// # Panics
    /// If the object ends before.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.held.write(offset, bytes);
    }

    /// Makes the object everyone's.
    ///
    /// # Errors
    /// [`Error::NotFound`]: somebody freed it, or this is a forked child.
    pub fn publish(mut self) -> Result<Handle> {
        let handle = self.held.handle;
        // SAFETY: the pool is open, and any number will do.
        match check(unsafe { sys::tslab_publish(self.pool.raw(), handle.raw()) }) {
            Ok(_) => {
                self.held.process = 0; // nothing is to be freed
                Ok(handle)
            }
            Err(Error::NotFound) => {
                self.held.process = 0; // it is not ours
                Err(Error::NotFound)
            }
            Err(e) => Err(e),
        }
    }
}

impl Drop for SharedPending {
    fn drop(&mut self) {
        self.held.free(&self.pool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Miri runs this, too: no byte is touched but by an atomic access of a word of the object.
    #[test]
    fn store_bytes_keeps_others() {
        const SIZE: usize = 3 * WORD;
        for offset in 0..SIZE {
            for size in 0..=SIZE - offset {
                let words = [0; SIZE / WORD].map(|_: u8| AtomicU64::new(u64::MAX));
                // SAFETY: the bytes are in the words.
                unsafe { store_bytes(words.as_ptr() as *mut u8, offset, &[7; SIZE][..size]) };
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
                let is_stored = |i: usize| (offset..offset + size).contains(&i);
                assert!((0..SIZE).all(|i| bytes[i] == if is_stored(i) { 7 } else { 255 }), "{size} bytes at {offset}");
            }
        }
    }
}

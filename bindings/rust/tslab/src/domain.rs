use std::cell::RefCell;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::epoch::Epoch;
use crate::error::{check, Result};
use crate::pool::{non_null, Pool};
use tslab_sys as sys;

/// A scope around one epoch, which threads of all processes enter and leave.
///
/// ```
/// let pool = tslab::Pool::create()?;
/// let request = pool.domain(pool.epoch_reserve("request 7")?, true)?;
/// {
///     let inside = request.enter()?;
///     pool.alloc_in(100, inside.epoch())?;
/// } // the last thread that leaves closes the epoch
/// assert!(matches!(pool.alloc_in(100, request.epoch()), Err(tslab::Error::EpochClosed)));
/// # Ok::<(), tslab::Error>(())
/// ```
pub struct Domain(Arc<Opened>);

struct Opened {
    raw: NonNull<sys::tslab_domain>,
    _pool: Pool,
}

// SAFETY: any thread may make any call.
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: a thread that is inside has a reference in `ENTERED`, so no thread is.
        unsafe { sys::tslab_domain_close(self.raw.as_ptr()) };
    }
}

struct Entered {
    domain: Arc<Opened>,
    is_left: bool,
}

thread_local! {
    // The domains that this thread is inside of, which it leaves in reverse order. A guard that is dropped before the
    // guards of later ones only marks its domain.
    static ENTERED: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
}

impl Pool {
    /// Makes a domain of an epoch. With `auto_close` the last thread to leave, of all processes, closes the epoch.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid): there is no such epoch; [`Error::Stale`](crate::Error::Stale).
    pub fn domain(&self, epoch: Epoch, auto_close: bool) -> Result<Domain> {
        let mut raw = ptr::null_mut();
        let flags = if auto_close { sys::TSLAB_DOMAIN_AUTO_CLOSE } else { 0 };
        // SAFETY: the pool is open.
        check(unsafe { sys::tslab_domain_open(&mut raw, self.raw(), epoch.raw(), flags) })?;
        let raw = non_null(raw);
        Ok(Domain(Arc::new(Opened { raw, _pool: self.clone() })))
    }
}

impl Domain {
    /// The domain's epoch, with its era.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        // SAFETY: the domain is open.
        Epoch(unsafe { sys::tslab_domain_epoch(self.0.raw.as_ptr()) })
    }

    /// Takes a reference to the epoch until the guard is dropped.
    ///
    /// # Errors
    /// [`Error::EpochClosed`](crate::Error::EpochClosed), [`Error::Stale`](crate::Error::Stale);
    /// [`Error::TooManyPending`](crate::Error::TooManyPending): the thread is inside 64 domains.
    pub fn enter(&self) -> Result<Inside<'_>> {
        // SAFETY: the domain is open.
        check(unsafe { sys::tslab_domain_enter(self.0.raw.as_ptr()) })?;
        let depth = ENTERED.with(|entered| {
            let mut entered = entered.borrow_mut();
            entered.push(Entered { domain: self.0.clone(), is_left: false });
            entered.len() - 1
        });
        Ok(Inside { domain: self, depth, _thread: PhantomData })
    }
}

/// A thread inside a [`Domain`]; drop it to leave.
pub struct Inside<'domain> {
    domain: &'domain Domain,
    depth: usize,
    _thread: PhantomData<*mut ()>,
}

impl Inside<'_> {
    /// The domain's epoch, with its era.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.domain.epoch()
    }

    /// Leaves, and tells the error of the close, if the domain closes its epoch.
    ///
    /// # Errors
    /// Those of control calls; the domain was left all the same.
    pub fn leave(self) -> Result<()> {
        let result = self.leave_now();
        std::mem::forget(self);
        result
    }

    fn leave_now(&self) -> Result<()> {
        let mut result = Ok(());
        // The thread-local goes before a guard in another one: then the library's list is the last one to know.
        let _ = ENTERED.try_with(|entered| {
            let mut entered = entered.borrow_mut();
            entered[self.depth].is_left = true;
            while entered.last().map_or(false, |last| last.is_left) {
                if let Some(last) = entered.pop() {
                    // SAFETY: the domain is open as long as `last` is there.
                    let left = check(unsafe { sys::tslab_domain_leave(last.domain.raw.as_ptr()) });
                    result = std::mem::replace(&mut result, Ok(())).and(left.map(drop));
                }
            }
        });
        result
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        drop(self.leave_now());
    }
}

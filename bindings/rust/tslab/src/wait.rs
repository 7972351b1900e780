//! Waits that do not block, for tokio: a pool has one waiter of the library, whose descriptor a task polls.

use std::collections::HashMap;
use std::future::Future;
use std::os::unix::io::{BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::unix::AsyncFd;
use tokio::io::Interest;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cache::{Cache, Sought, Stored, LOOK};
use crate::claim::Claiming;
use crate::error::{check, Error, Result, ETIMEDOUT};
use crate::lock::{Held, Lock};
use crate::map::{Map, Version};
use crate::pool::{millis, non_null, Pool};
use crate::process;
use tslab_sys as sys;

/// A pool's waiter, once a task has waited.
pub(crate) type Slot = Mutex<Option<Arc<Waiter>>>;

pub(crate) struct Waiter {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
    process: u64,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.shared.close();
        // A forked child has no thread of the runtime.
        if self.process == process::number() {
            self.task.abort();
        }
    }
}

struct Shared(Mutex<Option<State>>); // nothing: it was closed, or its runtime has ended

/// A wait holds its map, as the library does, until it was told or cancelled.
type Wait = (oneshot::Sender<i32>, Map);

struct State {
    raw: NonNull<sys::tslab_waiter>,
    waits: HashMap<u64, Wait>,
}

// SAFETY: any thread may make the calls of a waiter (<tslab_map.h>).
unsafe impl Send for State {}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: this is the last call. It ends all waits, whose maps go afterwards.
        unsafe { sys::tslab_waiter_close(self.raw.as_ptr()) };
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn close(&self) {
        // Its maps may hold the pool, whose drop comes back here: they go without the lock.
        let state = locked(&self.0).take();
        drop(state);
    }

    /// Tells all waits that are over; false where the waiter was closed.
    fn tell(&self) -> bool {
        let mut told = Vec::new(); // tasks run, and maps go, without the lock
        let mut guard = locked(&self.0);
        let state = match guard.as_mut() {
            Some(state) => state,
            None => return false,
        };
        let (mut wait, mut result) = (0, 0);
        // SAFETY: the waiter is open.
        while unsafe { sys::tslab_waiter_next(state.raw.as_ptr(), &mut wait, &mut result) } > 0 {
            told.extend(state.waits.remove(&wait).map(|wait| (wait, result)));
        }
        drop(guard);
        for ((sender, _map), result) in told {
            let _ = sender.send(result); // its task may be gone
        }
        true
    }

    fn add(&self, map: &Map, key: &[u8], claim: Version, timeout: Duration) -> Result<Option<Begun>> {
        let mut guard = locked(&self.0);
        let state = match guard.as_mut() {
            Some(state) => state,
            None => return Ok(None),
        };
        let mut number = 0;
        // SAFETY: the key has that size, and the map stays open: see `Wait`.
        check(unsafe {
            sys::tslab_waiter_add(
                state.raw.as_ptr(),
                map.raw(),
                key.as_ptr().cast(),
                key.len(),
                claim.raw(),
                millis(timeout).min(u32::MAX - 1),
                &mut number,
            )
        })?;
        let (sender, receiver) = oneshot::channel();
        state.waits.insert(number, (sender, map.clone()));
        Ok(Some((number, receiver)))
    }

    fn cancel(&self, number: u64) {
        let mut guard = locked(&self.0);
        let wait = guard.as_mut().and_then(|state| {
            // SAFETY: the waiter is open, and any number will do.
            unsafe { sys::tslab_waiter_cancel(state.raw.as_ptr(), number) };
            state.waits.remove(&number)
        });
        drop(guard);
        drop(wait);
    }
}

type Begun = (u64, oneshot::Receiver<i32>);

/// Cancels a wait whose task is dropped.
struct Waiting {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.shared.cancel(self.number);
    }
}

/// Tells of waits until the waiter is closed. When the runtime ends before, this is dropped, and closes the waiter.
struct Driver {
    shared: Arc<Shared>,
    descriptor: AsyncFd<OwnedFd>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.close();
    }
}

async fn drive(driver: Driver) {
    while let Ok(mut ready) = driver.descriptor.readable().await {
        // A wait that ends between the two makes the descriptor readable anew.
        ready.clear_ready();
        if !driver.shared.tell() {
            return;
        }
    }
}

impl Waiter {
    #[allow(deprecated)] // versions of tokio that have no register_with_interest() are as good
    fn new(pool: &Pool) -> Result<Self> {
        let mut raw = ptr::null_mut();
        // SAFETY: the pool is open.
        check(unsafe { sys::tslab_waiter_open(&mut raw, pool.raw()) })?;
        let state = State { raw: non_null(raw), waits: HashMap::new() };
        // The waiter closes its descriptor, so the runtime gets one of its own.
        // SAFETY: the waiter is open.
        let descriptor = unsafe { BorrowedFd::borrow_raw(sys::tslab_waiter_fd(raw)) }.try_clone_to_owned();
        let descriptor = descriptor.and_then(|fd| AsyncFd::with_interest(fd, Interest::READABLE)).map_err(Error::Io)?;
        let shared = Arc::new(Shared(Mutex::new(Some(state))));
        let task = tokio::spawn(drive(Driver { shared: shared.clone(), descriptor }));
        Ok(Waiter { shared, task, process: process::number() })
    }
}

impl Map {
    /// As [`Map::wait`], without blocking the thread. The claim may be one of this thread.
    ///
    /// Needs a runtime of tokio with I/O. All waits of a pool take one thread of the library, and one task of the runtime
    /// in which the first of them was.
    ///
    /// # Errors
    /// [`Error::NoMemory`], [`Error::Revoked`]; [`Error::Io`]: no descriptor is left, or that runtime ended meanwhile.
    ///
    /// # Panics
    /// Outside of a runtime of tokio with I/O.
    pub async fn wait_async<K: AsRef<[u8]> + ?Sized>(
        &self,
        key: &K,
        claim: Version,
        timeout: Duration,
    ) -> Result<bool> {
        let (waiting, receiver) = self.begin_wait(key.as_ref(), claim, timeout)?;
        let result = receiver.await;
        drop(waiting);
        match result {
            Ok(r) if r == -ETIMEDOUT => Ok(false),
            Ok(r) => check(r).map(|_| true),
            Err(_) => {
                Err(Error::Io(std::io::Error::new(std::io::ErrorKind::Other, "the runtime of the waits has ended")))
            }
        }
    }

    fn begin_wait(&self, key: &[u8], claim: Version, timeout: Duration) -> Result<(Waiting, oneshot::Receiver<i32>)> {
        loop {
            let mut slot = locked(self.pool().waiter());
            let waiter = match slot.as_ref().filter(|waiter| waiter.process == process::number()) {
                Some(waiter) => waiter.clone(),
                None => slot.insert(Arc::new(Waiter::new(self.pool())?)).clone(),
            };
            drop(slot);
            if let Some((number, receiver)) = waiter.shared.add(self, key, claim, timeout)? {
                return Ok((Waiting { shared: waiter.shared.clone(), number }, receiver));
            }
            // Its runtime has ended: another one is made in this runtime.
            let mut slot = locked(self.pool().waiter());
            if slot.as_ref().map_or(false, |old| Arc::ptr_eq(old, &waiter)) {
                *slot = None;
            }
        }
    }
}

impl Lock {
    /// As [`Lock::acquire_timeout`], without blocking the thread.
    ///
    /// # Errors
    /// As [`Lock::acquire`] and [`Map::wait_async`].
    pub async fn acquire_async(&self, timeout: Duration) -> Result<Option<Held>> {
        let (map, key, time) = self.parts();
        let begin = Instant::now();
        loop {
            match map.claim(key, time)? {
                Claiming::Mine(claim) => return Ok(Some(Held::new(claim, time))),
                Claiming::HasValue => return Err(Error::Exists),
                Claiming::Other(claim) => {
                    let left = timeout.saturating_sub(begin.elapsed());
                    if left == Duration::ZERO || !map.wait_async(key, claim, left).await? {
                        return Ok(None);
                    }
                }
            }
        }
    }
}

impl<K: AsRef<[u8]> + ?Sized, V: Stored> Cache<K, V> {
    /// As [`Cache::get_or_compute`], without blocking the thread. If the task is dropped, the next one computes.
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    /// # runtime.block_on(async {
    /// let pool = tslab::Pool::create()?; // or Pool::open("web")
    /// let pages: tslab::Cache<str, String> = tslab::Cache::new(&pool, "pages")?;
    /// let page = pages.get_or_compute_async("page 7", async { "<html>".to_string() }).await?;
    /// assert_eq!(page, "<html>");
    /// # Ok::<(), tslab::Error>(())
    /// # }).expect("all is well");
    /// ```
    ///
    /// # Errors
    /// As [`Cache::get`].
    pub async fn get_or_compute_async(&self, key: &K, compute: impl Future<Output = V>) -> Result<V> {
        let begin = Instant::now();
        let claim = loop {
            match self.seek(key)? {
                Sought::Found(value) => return Ok(value),
                Sought::Compute(claim) => break claim,
                Sought::Wait(map, version) => {
                    let left = self.wait_time().saturating_sub(begin.elapsed());
                    match map.wait_async(key, version, left.min(LOOK)).await {
                        Ok(true) => {}
                        Ok(false) if left > LOOK => {}
                        _ => break None,
                    }
                }
            }
        };
        Ok(Self::kept(claim, compute.await))
    }
}

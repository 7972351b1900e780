use std::time::{Duration, Instant};

use crate::claim::{Claim, Claiming, CLAIM_TIME};
use crate::error::{Error, Result};
use crate::map::Map;

// A wait without a limit is made of waits of this length.
const FOREVER: Duration = Duration::from_secs(3600);

/// A lock of all processes, on a key of a map that has no value.
///
/// It becomes free when its guard is dropped, when its owner is killed, and when its time is over, 30 seconds by default.
///
/// ```
/// let pool = tslab::Pool::create()?;
/// let lock = tslab::Lock::new(&pool.map("locks")?, "report");
/// let mut held = lock.acquire()?;
/// assert!(lock.try_acquire()?.is_none());
/// assert!(held.extend()?); // for another 30 seconds
/// assert!(held.release()?); // false: it was lost before, as its time was over
/// # Ok::<(), tslab::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Lock {
    map: Map,
    key: Box<[u8]>,
    time: Duration,
}

impl Lock {
    /// The lock of that key.
    #[must_use]
    pub fn new<K: AsRef<[u8]> + ?Sized>(map: &Map, key: &K) -> Self {
        Lock { map: map.clone(), key: key.as_ref().into(), time: CLAIM_TIME }
    }

    /// Lets an owner have it for another time.
    #[must_use]
    pub fn time(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// Waits until it is free, and takes it.
    ///
    /// # Errors
    /// [`Error::Deadlock`]: this thread has it; [`Error::Exists`]: the key has a value; and those of a put.
    pub fn acquire(&self) -> Result<Held> {
        loop {
            if let Some(held) = self.acquire_timeout(FOREVER)? {
                return Ok(held);
            }
        }
    }

    /// Takes it, or waits for so long at most.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Held>> {
        let begin = Instant::now();
        loop {
            match self.map.claim(&self.key, self.time)? {
                Claiming::Mine(claim) => return Ok(Some(Held { claim, time: self.time })),
                Claiming::HasValue => return Err(Error::Exists),
                Claiming::Other(claim) => {
                    let left = timeout.saturating_sub(begin.elapsed());
                    if left == Duration::ZERO || !self.map.wait(&self.key, claim, left)? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Takes it if it is free.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    pub fn try_acquire(&self) -> Result<Option<Held>> {
        self.acquire_timeout(Duration::ZERO)
    }
}

#[cfg(feature = "tokio")]
impl Lock {
    pub(crate) fn parts(&self) -> (&Map, &[u8], Duration) {
        (&self.map, &self.key, self.time)
    }
}

/// A lock that is held, until this is dropped.
#[derive(Debug)]
pub struct Held {
    claim: Claim,
    time: Duration,
}

impl Held {
    #[cfg(feature = "tokio")]
    pub(crate) fn new(claim: Claim, time: Duration) -> Self {
        Held { claim, time }
    }

    /// Holds it for another time from now: whether it was still held.
    ///
    /// # Errors
    /// Those of a put; in a forked child, whose parent holds it, [`Error::Changed`].
    pub fn extend(&mut self) -> Result<bool> {
        self.claim.extend(self.time)
    }

    /// Frees it: whether it was held until now. If not, its time was over, or the map was cleared.
    ///
    /// # Errors
    /// [`Error::Revoked`]; in a forked child, whose parent holds it, [`Error::Changed`].
    pub fn release(self) -> Result<bool> {
        self.claim.give_up()
    }
}

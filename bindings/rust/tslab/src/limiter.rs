use std::time::Duration;

use crate::error::Result;
use crate::map::{Map, Version};
use crate::pool::Pool;

/// A limit of a rate for each key, which holds over all processes.
///
/// ```
/// let pool = tslab::Pool::create()?;
/// let limiter = tslab::Limiter::new(&pool, "requests", 10.0, 2)?; // 10 a second, and 2 at once
/// assert!(limiter.allow("203.0.113.7")?);
/// assert!(limiter.allow("203.0.113.7")?);
/// assert!(!limiter.allow("203.0.113.7")?);
/// # Ok::<(), tslab::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Limiter {
    map: Map,
    per_second: f64,
    burst: u32,
}

impl Limiter {
    /// Limits in the map of that name.
    ///
    /// # Errors
    /// As [`Pool::map`].
    pub fn new(pool: &Pool, name: &str, per_second: f64, burst: u32) -> Result<Self> {
        Ok(Limiter { map: pool.map(name)?, per_second, burst })
    }

    /// Takes tokens, or tells the time until there are enough.
    ///
    /// # Errors
    /// As [`Map::limit`].
    pub fn take<K: AsRef<[u8]> + ?Sized>(&self, key: &K, cost: u32) -> Result<Option<Duration>> {
        self.map.limit(key, self.per_second, self.burst, cost)
    }

    /// Takes one token: whether there was one.
    ///
    /// # Errors
    /// As [`Map::limit`].
    pub fn allow<K: AsRef<[u8]> + ?Sized>(&self, key: &K) -> Result<bool> {
        Ok(self.take(key, 1)?.is_none())
    }
}

/// A counter that one program adds to often: it remembers where the counter is, and needs no look at its key.
///
/// ```
/// let pool = tslab::Pool::create()?;
/// let mut hits = pool.map("counters")?.counter("hits");
/// assert_eq!((hits.add(1)?, hits.add(2)?), (1, 3));
/// # Ok::<(), tslab::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Counter {
    map: Map,
    key: Box<[u8]>,
    version: Version,
}

impl Map {
    /// A counter of this map.
    #[must_use]
    pub fn counter<K: AsRef<[u8]> + ?Sized>(&self, key: &K) -> Counter {
        Counter { map: self.clone(), key: key.as_ref().into(), version: Version::ABSENT }
    }
}

impl Counter {
    /// Adds, and returns the sum.
    ///
    /// # Errors
    /// As [`Map::add`].
    pub fn add(&mut self, delta: i64) -> Result<i64> {
        if self.version != Version::ABSENT {
            match self.map.add_at(self.version, delta) {
                Err(crate::Error::Stale) => {}
                result => return result,
            }
        }
        let sum = self.map.add(&self.key, delta)?;
        self.version = self.map.get_entry(&self.key)?.map_or(Version::ABSENT, |entry| entry.version);
        Ok(sum)
    }

    /// The sum now; 0 where there is no counter.
    ///
    /// # Errors
    /// As [`Map::get`]; [`Error::Invalid`](crate::Error::Invalid): the value is no counter.
    pub fn get(&self) -> Result<i64> {
        match self.map.get_entry(&self.key)? {
            None => Ok(0),
            Some(entry) if entry.is_counter => counted(&entry.value).ok_or(crate::Error::Invalid),
            Some(_) => Err(crate::Error::Invalid),
        }
    }
}

/// The number of a counter, which a get copies in the machine's byte order.
pub(crate) fn counted(value: &[u8]) -> Option<i64> {
    value.try_into().ok().map(i64::from_ne_bytes)
}

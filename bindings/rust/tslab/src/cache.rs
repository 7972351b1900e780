use std::borrow::Cow;
use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use crate::claim::{Claim, Claiming, CLAIM_TIME};
use crate::error::{Error, Result};
use crate::map::{Entry, Map, MapOptions, Put, Ttl};
use crate::pool::Pool;
use crate::value::{is_described, Value};
use tslab_sys as sys;

// The time after which a cache checks again whether the daemon has another arena.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// Types that a [`Cache`] keeps, in the format that all languages share: text and bytes as they are, and all else as
/// CBOR. With the feature `serde` there are `Json<T>` and `Cbor<T>` for any type of serde.
pub trait Stored: Sized {
    /// The bytes of the value.
    ///
    /// # Errors
    /// [`Error::Invalid`]: it has none.
    fn encode(&self) -> Result<Cow<'_, [u8]>>;

    /// The value of bytes; nothing where they are none, which counts as absent.
    fn decode(bytes: Vec<u8>, is_counter: bool) -> Option<Self>;
}

impl Stored for Vec<u8> {
    fn encode(&self) -> Result<Cow<'_, [u8]>> {
        if is_described(self) {
            return Ok(Cow::Owned(Value::Bytes(self.clone()).to_bytes()));
        }
        Ok(Cow::Borrowed(self))
    }

    fn decode(bytes: Vec<u8>, is_counter: bool) -> Option<Self> {
        match Value::from_bytes(bytes, is_counter)? {
            Value::Bytes(bytes) => Some(bytes),
            Value::Text(text) => Some(text.into_bytes()),
            _ => None,
        }
    }
}

impl Stored for String {
    fn encode(&self) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(self.as_bytes())) // no UTF-8 begins as CBOR does
    }

    fn decode(bytes: Vec<u8>, is_counter: bool) -> Option<Self> {
        String::from_utf8(Vec::decode(bytes, is_counter)?).ok()
    }
}

impl Stored for Value {
    fn encode(&self) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Owned(self.to_bytes()))
    }

    fn decode(bytes: Vec<u8>, is_counter: bool) -> Option<Self> {
        Value::from_bytes(bytes, is_counter)
    }
}

macro_rules! stored {
    ($($type:ty => |$value:ident| $of:expr;)*) => {$(
        impl Stored for $type {
            fn encode(&self) -> Result<Cow<'_, [u8]>> {
                Ok(Cow::Owned(Value::from(*self).to_bytes()))
            }

            fn decode(bytes: Vec<u8>, is_counter: bool) -> Option<Self> {
                let $value = Value::from_bytes(bytes, is_counter)?;
                $of
            }
        }
    )*};
}
stored! {
    bool => |value| match value { Value::Bool(it) => Some(it), _ => None };
    i64 => |value| value.as_i64();
    u64 => |value| match value { Value::Int(it) => u64::try_from(it).ok(), _ => None };
    i32 => |value| value.as_i64()?.try_into().ok();
    u32 => |value| value.as_i64()?.try_into().ok();
    f64 => |value| value.as_f64();
}

/// A value that a stray write has damaged is no value.
fn undamaged(result: Result<Option<Entry>>) -> Result<Option<Entry>> {
    match result {
        Err(Error::Damaged) => Ok(None),
        result => result,
    }
}

/// Values by key, shared by all processes of a pool, which can be made again.
///
/// ```
/// use std::time::Duration;
/// use tslab::Cache;
///
/// let pool = tslab::Pool::create()?; // or Pool::open("web")
/// let pages: Cache<str, String> = Cache::new(&pool, "pages")?.ttl(Duration::from_secs(300));
/// let page = pages.get_or_compute("page 7", || "<html>".to_string())?;
/// assert_eq!(page, "<html>");
/// assert_eq!(pages.get("page 7")?, Some(page));
/// # Ok::<(), tslab::Error>(())
/// ```
///
/// It goes on with a new daemon, whose arena is empty. A value that a stray write has damaged, or that is none of `V`,
/// counts as absent. Clones are the same cache.
pub struct Cache<K: ?Sized, V> {
    shared: Arc<Shared>,
    ttl: Ttl,
    wait: Duration,
    tags: Arc<[Vec<u8>]>,
    _types: PhantomData<fn(&K) -> V>,
}

struct Shared {
    map: RwLock<Map>,
    begin: Instant,
    looked_ms: AtomicU64,
}

impl<K: ?Sized, V> Clone for Cache<K, V> {
    fn clone(&self) -> Self {
        Cache {
            shared: self.shared.clone(),
            ttl: self.ttl,
            wait: self.wait,
            tags: self.tags.clone(),
            _types: PhantomData,
        }
    }
}

pub(crate) enum Sought<V> {
    Found(V),
    /// With the tags as they were before the computation.
    Compute(Option<(Claim, Put)>),
    Wait(Map, crate::map::Version),
}

impl<K: AsRef<[u8]> + ?Sized, V: Stored> Cache<K, V> {
    /// A cache in the map of that name; if there is none, it is one that evicts.
    ///
    /// # Errors
    /// As [`Pool::map`].
    pub fn new(pool: &Pool, name: &str) -> Result<Self> {
        Self::with(pool, name, &MapOptions::new().evict(crate::Evict::Sieve))
    }

    /// A cache in a map with options.
    ///
    /// # Errors
    /// As [`Pool::map`].
    pub fn with(pool: &Pool, name: &str, options: &MapOptions) -> Result<Self> {
        let map = RwLock::new(pool.map_with(name, options)?);
        let shared = Shared { map, begin: Instant::now(), looked_ms: AtomicU64::new(0) };
        Ok(Cache {
            shared: Arc::new(shared),
            ttl: Ttl::Map,
            wait: Duration::from_secs(30),
            tags: Arc::new([]),
            _types: PhantomData,
        })
    }

    /// Lets values live for another time than the map says.
    #[must_use]
    pub fn ttl(mut self, ttl: impl Into<Ttl>) -> Self {
        self.ttl = ttl.into();
        self
    }

    /// The same cache, whose values have these tags, up to four, when they are put by this one: they are absent once
    /// [`Cache::invalidate`] was called for one of the tags, be it while they are computed.
    ///
    /// ```
    /// use tslab::Cache;
    ///
    /// # let pool = tslab::Pool::create()?;
    /// let pages: Cache<str, String> = Cache::new(&pool, "pages")?;
    /// let of_shoes = pages.tagged(&["shoes"])?;
    /// of_shoes.get_or_compute("list", || "<html>".to_string())?;
    /// pages.invalidate("shoes")?;
    /// assert_eq!(pages.get("list")?, None);
    /// # Ok::<(), tslab::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`]: they are more than four.
    pub fn tagged<T: AsRef<[u8]>>(&self, tags: &[T]) -> Result<Self> {
        if tags.len() > sys::TSLAB_MAP_TAGS_MAX {
            return Err(Error::Invalid);
        }
        Ok(Cache { tags: tags.iter().map(|tag| tag.as_ref().to_vec()).collect(), ..self.clone() })
    }

    /// Makes all values that have this tag absent at once, in all processes: whether there was such a tag.
    ///
    /// # Errors
    /// As [`Map::invalidate`].
    pub fn invalidate<T: AsRef<[u8]> + ?Sized>(&self, tag: &T) -> Result<bool> {
        self.call(|map| map.invalidate(tag))
    }

    /// Lets a caller wait for another's computation for so long at most, 30 seconds by default.
    #[must_use]
    pub fn wait(mut self, time: Duration) -> Self {
        self.wait = time;
        self
    }

    /// The map, of the daemon's arena as it is now.
    #[must_use]
    pub fn map(&self) -> Map {
        let now = u64::try_from(self.shared.begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        let looked = self.shared.looked_ms.load(Ordering::Relaxed);
        let map = self.shared.map.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        if now - looked.min(now) < u64::try_from(LOOK.as_millis()).unwrap_or(0)
            || self.shared.looked_ms.compare_exchange(looked, now, Ordering::Relaxed, Ordering::Relaxed).is_err()
            || !map.pool().stale()
        {
            return map;
        }
        self.reopened(&map)
    }

    /// The map in a new arena; the old one as long as there is none.
    fn reopened(&self, old: &Map) -> Map {
        match old.reopen() {
            Ok(map) => {
                *self.shared.map.write().unwrap_or_else(std::sync::PoisonError::into_inner) = map.clone();
                map
            }
            Err(_) => old.clone(),
        }
    }

    /// Makes a call, and once more where the map is gone.
    fn call<T>(&self, call: impl Fn(&Map) -> Result<T>) -> Result<T> {
        let map = self.map();
        match call(&map) {
            Err(Error::Replaced | Error::Revoked) => call(&self.reopened(&map)),
            result => result,
        }
    }

    /// With the tags as they are now.
    fn put(&self, map: &Map) -> Result<Put> {
        let put = Put::new().ttl(self.ttl);
        self.tags.iter().try_fold(put, |put, tag| Ok(put.tag(map.tag(tag)?)))
    }

    /// A key's value.
    ///
    /// # Errors
    /// [`Error::Revoked`], and none of values.
    pub fn get(&self, key: &K) -> Result<Option<V>> {
        let entry = undamaged(self.call(|map| map.get_entry(key)))?;
        Ok(entry.and_then(|entry| V::decode(entry.value, entry.is_counter)))
    }

    /// Whether the key has a value.
    ///
    /// # Errors
    /// As [`Cache::get`].
    pub fn contains_key(&self, key: &K) -> Result<bool> {
        self.call(|map| map.contains_key(key))
    }

    /// Sets a key's value.
    ///
    /// # Errors
    /// See [`Map`]; the old value stays.
    pub fn set(&self, key: &K, value: &V) -> Result<()> {
        let bytes = value.encode()?;
        self.call(|map| map.put_with(key, &bytes, self.put(map)?))
    }

    /// Sets a key's value if it has none: whether it had none.
    ///
    /// # Errors
    /// See [`Map`].
    pub fn add(&self, key: &K, value: &V) -> Result<bool> {
        let bytes = value.encode()?;
        self.call(|map| map.insert(key, &bytes, self.put(map)?))
    }

    /// Sets a key's value if it has one: whether it had.
    ///
    /// # Errors
    /// See [`Map`].
    pub fn replace(&self, key: &K, value: &V) -> Result<bool> {
        let bytes = value.encode()?;
        self.call(|map| map.update(key, &bytes, self.put(map)?))
    }

    /// Adds to a counter, and returns the sum. An absent key counts as 0.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the value was set; and see [`Map`].
    pub fn incr(&self, key: &K, delta: i64) -> Result<i64> {
        self.call(|map| map.add_with(key, delta, 0, self.ttl))
    }

    /// Begins a value's lifetime anew: whether there is one.
    ///
    /// # Errors
    /// See [`Map`].
    pub fn touch(&self, key: &K) -> Result<bool> {
        self.call(|map| map.touch(key, self.ttl))
    }

    /// Deletes a key, and returns its value. Of several callers one gets it.
    ///
    /// # Errors
    /// As [`Map::take`].
    pub fn pop(&self, key: &K) -> Result<Option<V>> {
        let entry = undamaged(self.call(|map| map.take_entry(key)))?;
        Ok(entry.and_then(|entry| V::decode(entry.value, entry.is_counter)))
    }

    /// Deletes a key: whether it was there.
    ///
    /// # Errors
    /// As [`Map::delete`].
    pub fn delete(&self, key: &K) -> Result<bool> {
        self.call(|map| map.delete(key))
    }

    /// Deletes all values that are there when it begins. A value that is being computed is not kept.
    ///
    /// # Errors
    /// As [`Map::clear`].
    pub fn clear(&self) -> Result<usize> {
        self.call(Map::clear)
    }

    /// A key's value; if it is absent, the one that `compute` makes, in one caller of all processes, while the others wait
    /// for it, or get the stale one if the map keeps these.
    ///
    /// If that caller panics or is killed, the next one computes; so does a caller that has waited for long. A value that the pool does not take is returned all the same.
    ///
    /// # Errors
    /// As [`Cache::get`]; [`Error::Deadlock`]: `compute` asks for the key that it computes.
    pub fn get_or_compute(&self, key: &K, compute: impl FnOnce() -> V) -> Result<V> {
        match self.get_or_try_compute(key, || Ok::<_, Infallible>(compute()))? {
            Ok(value) => Ok(value),
            Err(never) => match never {},
        }
    }

    /// As [`Cache::get_or_compute`], for a computation that may fail. Then the next caller computes.
    ///
    /// # Errors
    /// As [`Cache::get_or_compute`]; the inner error is that of `compute`.
    pub fn get_or_try_compute<E>(
        &self,
        key: &K,
        compute: impl FnOnce() -> std::result::Result<V, E>,
    ) -> Result<std::result::Result<V, E>> {
        let begin = Instant::now();
        let claim = loop {
            match self.seek(key)? {
                Sought::Found(value) => return Ok(Ok(value)),
                Sought::Compute(claim) => break claim,
                Sought::Wait(map, version) => {
                    let left = self.wait.saturating_sub(begin.elapsed());
                    // In slices, as a claim in an arena that was replaced may never be fulfilled.
                    match map.wait(key, version, left.min(LOOK)) {
                        Ok(true) => {}
                        Ok(false) if left > LOOK => {}
                        Err(Error::Deadlock) => return Err(Error::Deadlock),
                        _ => break None,
                    }
                }
            }
        };
        Ok(compute().map(|value| Self::kept(claim, value)))
    }

    /// The value; or a claim that is the caller's; or whether to wait for that of another.
    pub(crate) fn seek(&self, key: &K) -> Result<Sought<V>> {
        loop {
            let map = self.map();
            let found = undamaged(self.call(|map| map.get_stale(key)))?;
            let (is_fresh, version) = found.as_ref().map_or((false, None), |e| (!e.is_stale, Some(e.version)));
            let value = found.and_then(|entry| V::decode(entry.value, entry.is_counter));
            match value {
                Some(value) if is_fresh => return Ok(Sought::Found(value)),
                None if is_fresh => drop(map.delete_version(key, version.unwrap_or(crate::Version::ABSENT))?),
                value => match (map.claim(key, CLAIM_TIME), value) {
                    // A pool that takes no tag takes no value: then the claim is dropped.
                    (Ok(Claiming::Mine(claim)), _) => {
                        let put = self.put(&map);
                        return Ok(Sought::Compute(put.ok().map(|put| (claim, put))));
                    }
                    (Ok(Claiming::Other(_)), Some(stale)) => return Ok(Sought::Found(stale)),
                    (Ok(Claiming::Other(claim)), None) => return Ok(Sought::Wait(map, claim)),
                    (Ok(Claiming::HasValue), _) => {
                        if let Err(Error::Damaged) = map.get(key) {
                            map.delete(key)?;
                        }
                    }
                    (Err(_), _) => return Ok(Sought::Compute(None)), // full, or a reader: without a claim
                },
            }
        }
    }

    pub(crate) fn kept(claim: Option<(Claim, Put)>, value: V) -> V {
        if let (Some((claim, put)), Ok(bytes)) = (claim, value.encode()) {
            // A value that was put meanwhile is newer than this one, and so is a deletion.
            drop(claim.fulfil(&bytes, put));
        }
        value
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn wait_time(&self) -> Duration {
        self.wait
    }
}

//! Maps, caches, counters, limits and locks that a group of processes shares: in shared memory, without a server between.
//!
//! A daemon, `tslabd`, has the memory; programs map it, and their calls are reads and writes. A process that is killed in
//! the middle of a call loses nothing and delays nobody.
//!
//! ```no_run
//! let pool = tslab::Pool::open("web")?;
//! let sessions = pool.map("sessions")?;
//! sessions.put("alice", "127 requests")?;
//! assert_eq!(sessions.get("alice")?.as_deref(), Some(&b"127 requests"[..]));
//! # Ok::<(), tslab::Error>(())
//! ```
//!
//! - [`Map`]: byte strings by key, with lifetimes, limits, eviction, versions and claims; [`Counter`] and [`Limiter`].
//! - [`Cache`]: values of any type that is [`Stored`], computed once for all processes; [`Value`]: those of other languages.
//! - [`Lock`]: a lock that is free when its owner is killed.
//! - [`Pool`]: objects by [`Handle`], in [`Epoch`]s that end for all of their objects at once; [`Domain`], [`Pending`].
//!
//! Other processes may write to all of it at any time. So safe calls copy and check what they return, and code that works
//! in place has atomic words, or is unsafe: see [`Object`].
//!
//! A forked child goes on using its parent's pools. Dropping its copy of a pending object, a claim or a lock leaves its
//! parent's alone.
#![warn(missing_docs, clippy::pedantic)]

mod cache;
mod claim;
mod domain;
mod epoch;
mod error;
mod handle;
mod limiter;
mod lock;
mod map;
mod object;
mod pool;
mod process;
#[cfg(feature = "serde")]
mod serde;
mod text;
mod value;
#[cfg(feature = "tokio")]
mod wait;

#[cfg(feature = "serde")]
pub use self::serde::{Cbor, Json};
pub use cache::{Cache, Stored};
pub use claim::{Claim, Claiming, CLAIM_TIME};
pub use domain::{Domain, Inside};
pub use epoch::{Close, Epoch, EpochInfo, EpochState};
pub use error::{Error, Result};
pub use handle::{Handle, Plain};
pub use limiter::{Counter, Limiter};
pub use lock::{Held, Lock};
pub use map::{Cursor, Entry, Evict, Iter, Map, MapOptions, Put, Tag, Ttl, Version};
pub use object::{Object, Pending, SharedPending};
pub use pool::{version, Options, Pool, SlotCache};
pub use value::Value;

/// Counts of a class or an epoch, as `struct tslab_count` has them.
pub use tslab_sys::tslab_count as Count;
/// Counts of a map, as `struct tslab_map_statistics` has them.
pub use tslab_sys::tslab_map_statistics as MapStats;
/// Counts of a pool, as `struct tslab_stats` has them.
pub use tslab_sys::tslab_stats as Stats;
/// Counts of a thread, as `struct tslab_thread_stats` has them.
pub use tslab_sys::tslab_thread_stats as ThreadStats;

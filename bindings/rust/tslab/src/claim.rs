use std::time::Duration;

use crate::error::{Error, Result};
use crate::map::{Claimed, Map, Put, Version};
use crate::process;

/// How long a claim lasts if the caller gives no time.
pub const CLAIM_TIME: Duration = Duration::from_secs(30);

/// What [`Map::claim`] found.
#[derive(Debug)]
pub enum Claiming {
    /// The caller has the claim, and computes the value.
    Mine(Claim),
    /// Another has it: [`Map::wait`] for its end.
    Other(Version),
    /// The key has a value.
    HasValue,
}

/// A claim on an absent key, of this process. Of all that miss a key, one claims it and computes its value.
///
/// It is given up when it is dropped. It ends after its time, and with its process.
#[derive(Debug)]
pub struct Claim {
    map: Map,
    key: Box<[u8]>,
    version: Version,
    process: u64,
}

impl Map {
    /// Claims a key if it is absent, for a time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tslab::{Claiming, Put};
    ///
    /// # let pool = tslab::Pool::create()?;
    /// let pages = pool.map("pages")?;
    /// match pages.claim(b"page 7", tslab::CLAIM_TIME)? {
    ///     Claiming::Mine(claim) => assert!(claim.fulfil(b"<html>", Put::new())?),
    ///     Claiming::Other(claim) => drop(pages.wait(b"page 7", claim, Duration::from_secs(2))?),
    ///     Claiming::HasValue => {}
    /// }
    /// assert_eq!(pages.get(b"page 7")?.as_deref(), Some(&b"<html>"[..]));
    /// # Ok::<(), tslab::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`]: the time is 0; and those of a put.
    pub fn claim<K: AsRef<[u8]> + ?Sized>(&self, key: &K, time: Duration) -> Result<Claiming> {
        let key = key.as_ref();
        Ok(match self.claim_raw(key, time)? {
            Claimed::Mine(version) => {
                Claiming::Mine(Claim { map: self.clone(), key: key.into(), version, process: process::number() })
            }
            Claimed::Other(version) => Claiming::Other(version),
            Claimed::HasValue => Claiming::HasValue,
        })
    }
}

impl Claim {
    /// The claimed key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Names the claim.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Sets the value in its place: whether the claim still stood. If not, somebody else has put the key meanwhile, or
    /// deleted it, and that is newer.
    ///
    /// # Errors
    /// Those of a put; the claim is given up. In a forked child, whose parent has it, [`Error::Changed`].
    pub fn fulfil<V: AsRef<[u8]> + ?Sized>(mut self, value: &V, put: Put) -> Result<bool> {
        self.check_process()?;
        let is_set = self.map.replace(&self.key, self.version, value, put)?;
        self.process = 0; // nothing is left to give up
        Ok(is_set)
    }

    /// Lets it stand for so long from now: whether it still stood.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the time is 0; those of a put; in a forked child, whose parent has it, [`Error::Changed`].
    pub fn extend(&mut self, time: Duration) -> Result<bool> {
        self.check_process()?;
        let extended = self.map.extend_raw(&self.key, self.version, time)?;
        self.version = extended.unwrap_or(self.version);
        Ok(extended.is_some())
    }

    /// Gives it up: whether it still stood. The next caller computes the value.
    ///
    /// # Errors
    /// [`Error::Revoked`]; in a forked child, whose parent has it, [`Error::Changed`].
    pub fn give_up(mut self) -> Result<bool> {
        self.check_process()?;
        self.process = 0;
        self.map.delete_version(&self.key, self.version)
    }

    /// In a forked child this is a copy, and the claim is its parent's.
    fn check_process(&self) -> Result<()> {
        if self.process == process::number() {
            Ok(())
        } else {
            Err(Error::Changed)
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.check_process().is_ok() {
            drop(self.map.delete_version(&self.key, self.version));
        }
    }
}

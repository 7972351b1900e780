use std::fmt;
use std::time::{Duration, SystemTime};

use crate::error::{check, Result};
use crate::pool::Pool;
use crate::text::Text;
use tslab_sys as sys;

/// A lifetime that objects and entries are put into, and that can be ended for all of them at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Epoch(pub(crate) u32);

impl Epoch {
    /// The epoch that [`Pool::epoch_advance`] made current last.
    pub const CURRENT: Epoch = Epoch(sys::TSLAB_EPOCH_CURRENT);

    /// The epoch of a number: an id in the low 8 bits, and the era above; era 0 stands for the one that is open.
    #[must_use]
    pub const fn from_raw(number: u32) -> Self {
        Epoch(number)
    }

    /// Its number.
    #[must_use]
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// The id, which is used again in a later era.
    #[must_use]
    pub const fn id(self) -> u32 {
        self.0 & 0xff
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Epoch::CURRENT {
            return f.write_str("Epoch(CURRENT)");
        }
        write!(f, "Epoch({} of era {})", self.id(), self.0 >> 8)
    }
}

/// What an epoch takes and has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EpochState {
    /// Objects can be allocated in it.
    Open,
    /// No allocation; objects of it may live on.
    Closing,
    /// Closed, and no object of it is left.
    Drained,
}

/// Describes an epoch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EpochInfo {
    /// With its era.
    pub epoch: Epoch,
    /// Whether it is open.
    pub state: EpochState,
    /// Whether it is the one that [`Epoch::CURRENT`] stands for.
    pub is_current: bool,
    /// Whether it is out of the rotation, see [`Pool::epoch_reserve`].
    pub is_reserved: bool,
    /// For people.
    pub label: String,
    /// When it was opened.
    pub opened: SystemTime,
    /// When it was closed.
    pub closed: Option<SystemTime>,
    /// Given back to the system so far, of this era.
    pub reclaimed_bytes: u64,
}

/// What becomes of the objects of an epoch that is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// They stay until they are freed.
    Keep,
    /// They are freed.
    Revoke,
    /// They are freed, and so are those of all earlier eras of the id.
    RevokeOlder,
}

fn time(usec: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(usec)
}

/// Epochs. Calls that change one are control calls: in a daemon's pool they wait for the daemon.
impl Pool {
    /// The epoch for which [`Epoch::CURRENT`] stands now.
    ///
    /// # Errors
    /// None now; `Error` as for all calls.
    pub fn epoch_current(&self) -> Result<Epoch> {
        self.new_epoch(|pool, ret| unsafe { sys::tslab_epoch_current(pool, ret) })
    }

    /// Describes an epoch, open or closed.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid): there is none; [`Error::Stale`](crate::Error::Stale): its era is over.
    pub fn epoch_info(&self, epoch: Epoch) -> Result<EpochInfo> {
        let mut info: sys::tslab_epoch_info = crate::pool::sized();
        // SAFETY: the pool is open, and the struct has its size.
        check(unsafe { sys::tslab_epoch_info(self.raw(), epoch.0, &mut info) })?;
        let label: Vec<u8> = info.label.iter().map(|c| c.to_ne_bytes()[0]).take_while(|c| *c != 0).collect();
        Ok(EpochInfo {
            epoch: Epoch(info.epoch),
            state: match info.state {
                sys::TSLAB_EPOCH_OPEN => EpochState::Open,
                sys::TSLAB_EPOCH_CLOSING => EpochState::Closing,
                _ => EpochState::Drained,
            },
            is_current: info.current,
            is_reserved: info.reserved,
            label: String::from_utf8_lossy(&label).into_owned(),
            opened: time(info.opened_usec),
            closed: Some(info.closed_usec).filter(|usec| *usec != 0).map(time),
            reclaimed_bytes: info.reclaimed_bytes,
        })
    }

    /// Closes the current epoch to allocation, and makes the next one of the ring current.
    ///
    /// # Errors
    /// [`Error::NoSpace`](crate::Error::NoSpace): none can be spared; and those of control calls.
    pub fn epoch_advance(&self) -> Result<Epoch> {
        self.new_epoch(|pool, ret| unsafe { sys::tslab_epoch_advance(pool, ret) })
    }

    /// Advances if `expected` is the current epoch. Of several callers that expect one epoch, one advances. Returns
    /// whether this call did, and the epoch that is current then.
    ///
    /// # Errors
    /// As [`Pool::epoch_advance`]; [`Error::Invalid`](crate::Error::Invalid): `expected` has no era.
    pub fn epoch_advance_from(&self, expected: Epoch) -> Result<(bool, Epoch)> {
        let mut epoch = 0;
        // SAFETY: the pool is open.
        let r = check(unsafe { sys::tslab_epoch_advance_from(self.raw(), expected.0, &mut epoch) })?;
        Ok((r == 1, Epoch(epoch)))
    }

    /// Takes an unused epoch out of the rotation, for objects that outlive others.
    ///
    /// # Errors
    /// [`Error::NoSpace`](crate::Error::NoSpace): none can be spared; [`Error::Invalid`](crate::Error::Invalid): the label
    /// is longer than 31 bytes, or no printable text; and those of control calls.
    pub fn epoch_reserve(&self, label: &str) -> Result<Epoch> {
        let label = Text::new(label)?;
        self.new_epoch(|pool, ret| unsafe { sys::tslab_epoch_reserve(pool, label.as_ptr(), ret) })
    }

    /// Reserves an epoch that this process owns: when it dies, or closes the pool, all objects of the epoch are freed. A
    /// forked child does not inherit it.
    ///
    /// # Errors
    /// As [`Pool::epoch_reserve`].
    pub fn epoch_lease(&self, label: &str) -> Result<Epoch> {
        let label = Text::new(label)?;
        self.new_epoch(|pool, ret| unsafe { sys::tslab_epoch_lease(pool, label.as_ptr(), ret) })
    }

    /// Labels an epoch for people; "" takes the label off.
    ///
    /// # Errors
    /// As [`Pool::epoch_reserve`]; [`Error::Stale`](crate::Error::Stale): its era is over.
    pub fn epoch_label(&self, epoch: Epoch, label: &str) -> Result<()> {
        let label = Text::new(label)?;
        // SAFETY: the pool is open, and the label ends with a 0.
        check(unsafe { sys::tslab_epoch_label(self.raw(), epoch.0, label.as_ptr()) }).map(drop)
    }

    /// Closes an epoch to allocation, and gives the memory of its empty slabs back to the system.
    ///
    /// Revoking is no hazard to safe code: handles are stale then, and entries of maps absent. Pointers of unsafe code
    /// into these objects must have ended.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid): there is none; [`Error::Stale`](crate::Error::Stale): its era is over;
    /// [`Error::Busy`](crate::Error::Busy): try again; and those of control calls.
    pub fn epoch_close(&self, epoch: Epoch, objects: Close) -> Result<()> {
        let flags = match objects {
            Close::Keep => 0,
            Close::Revoke => sys::TSLAB_CLOSE_REVOKE,
            Close::RevokeOlder => sys::TSLAB_CLOSE_REVOKE | sys::TSLAB_CLOSE_OLDER,
        };
        // SAFETY: the pool is open.
        check(unsafe { sys::tslab_epoch_close(self.raw(), epoch.0, flags) }).map(drop)
    }

    /// Takes a reference of this process to an open epoch. It keeps nothing open: it tells the last process that gives
    /// its reference back that it is the last.
    ///
    /// # Errors
    /// [`Error::EpochClosed`](crate::Error::EpochClosed), [`Error::Stale`](crate::Error::Stale).
    pub fn epoch_ref(&self, epoch: Epoch) -> Result<()> {
        // SAFETY: the pool is open.
        check(unsafe { sys::tslab_epoch_ref(self.raw(), epoch.0) }).map(drop)
    }

    /// Gives a reference back. Returns how many processes still have any.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound): this process has none.
    pub fn epoch_unref(&self, epoch: Epoch) -> Result<u32> {
        // SAFETY: the pool is open.
        check(unsafe { sys::tslab_epoch_unref(self.raw(), epoch.0) })
    }

    /// How many processes have references to an epoch.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid), [`Error::Stale`](crate::Error::Stale).
    pub fn epoch_refs(&self, epoch: Epoch) -> Result<u32> {
        // SAFETY: the pool is open.
        check(unsafe { sys::tslab_epoch_refs(self.raw(), epoch.0) })
    }

    /// Counts the objects of an epoch, open or closed, by a walk through the slabs in use.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid), [`Error::Stale`](crate::Error::Stale).
    pub fn epoch_stats(&self, epoch: Epoch) -> Result<crate::Count> {
        let mut count: sys::tslab_count = crate::pool::sized();
        // SAFETY: the pool is open, and the struct has its size.
        check(unsafe { sys::tslab_epoch_stats(self.raw(), epoch.0, &mut count) })?;
        Ok(count)
    }

    fn new_epoch(&self, call: impl Fn(*mut sys::tslab, *mut u32) -> i32) -> Result<Epoch> {
        let mut epoch = 0;
        check(call(self.raw(), &mut epoch))?;
        Ok(Epoch(epoch))
    }
}

use std::{fmt, io};

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

// Numbers of Linux, which are the same on all processors that libtslab knows.
pub(crate) const ENOENT: i32 = 2;
pub(crate) const EINTR: i32 = 4;
pub(crate) const EAGAIN: i32 = 11;
pub(crate) const EBUSY: i32 = 16;
pub(crate) const EEXIST: i32 = 17;
pub(crate) const EINVAL: i32 = 22;
const EBADMSG: i32 = 74;
pub(crate) const EMSGSIZE: i32 = 90;
const ECONNRESET: i32 = 104;
const ENOTCONN: i32 = 107;
pub(crate) const ETIMEDOUT: i32 = 110;
pub(crate) const ECONNREFUSED: i32 = 111;
pub(crate) const EUCLEAN: i32 = 117;

/// Declares the errors that have one number each, with their texts.
macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// Why a call failed. [`Error::errno`] is the number that tslab(3) lists at the call.
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum Error {
            $($(#[$doc])* $name,)*
            /// No daemon serves the pool of this name.
            NoDaemon(Box<str>),
            /// There is no daemon now, it went away, or it did not answer in time. Calls that need none go on working.
            Daemon(io::Error),
            /// A stray write has damaged the value, which a put replaces, or the arena.
            Damaged,
            /// Any other error: no permission, no descriptor, all records taken.
            Io(io::Error),
        }

        impl Error {
            #[cold]
            pub(crate) fn new(errno: i32) -> Self {
                match errno {
                    $($number => Error::$name,)*
                    EBADMSG => Error::Damaged,
                    ECONNRESET | ENOTCONN | ETIMEDOUT | ECONNREFUSED => {
                        Error::Daemon(io::Error::from_raw_os_error(errno))
                    }
                    _ => Error::Io(io::Error::from_raw_os_error(errno)),
                }
            }

            /// The number of the error, as `<errno.h>` has it.
            #[must_use]
            pub fn errno(&self) -> i32 {
                match self {
                    $(Error::$name => $number,)*
                    Error::NoDaemon(_) => ECONNREFUSED,
                    Error::Damaged => EUCLEAN,
                    Error::Daemon(e) | Error::Io(e) => e.raw_os_error().unwrap_or(EINVAL),
                }
            }
        }

        impl fmt::Display for Error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Error::$name => f.write_str($text),)*
                    Error::NoDaemon(pool) => write!(f, "pool {pool:?}: there is no daemon"),
                    Error::Damaged => f.write_str("a stray write has damaged it; a put replaces a value"),
                    Error::Daemon(e) => write!(f, "the daemon: {e}"),
                    Error::Io(e) => e.fmt(f),
                }
            }
        }
    };
}

errors! {
    /// The handle names no live object, or the era of the epoch is over.
    Stale = 116, "the handle, or the era of the epoch, is over";
    /// The arena, the system or the pool's limit has no memory for it.
    NoMemory = 12, "no memory is left for it";
    /// No room: the map's limit is reached, all named roots are in use, or no epoch can be spared.
    NoSpace = 28, "the map is at its limit, or all 255 names of maps and roots are in use: remove maps";
    /// The epoch is closed to allocation.
    EpochClosed = 108, "the epoch is closed";
    /// Larger than the pool, or the map, takes.
    TooLarge = 7, "larger than the pool, or the map, takes";
    /// There is no such map, root or reference.
    NotFound = 2, "there is no such thing";
    /// There is one already.
    Exists = 17, "there is one already";
    /// Somebody else changed it meanwhile.
    Changed = 11, "somebody else changed it meanwhile";
    /// The pool was opened as a reader.
    ReadOnly = 30, "the pool was opened as a reader";
    /// Another process is doing control work: try again.
    Busy = 16, "another process is doing control work";
    /// The daemon has another arena by now: open the pool again.
    Replaced = 117, "the daemon has another arena by now: open the pool again";
    /// The index of the map was revoked: open the map again.
    Revoked = 43, "the index of the map was revoked: open the map again";
    /// The thread would wait for itself.
    Deadlock = 35, "the thread would wait for itself";
    /// An argument is out of range, or the value is of another kind.
    Invalid = 22, "an argument is out of range, or the value is of another kind";
    /// The sum of a counter is larger than its 64 bits take.
    Overflow = 75, "the sum is larger than a counter takes";
    /// Too many objects of this thread are pending, or it is inside too many domains.
    TooManyPending = 105, "too many objects are pending, or the thread is inside too many domains";
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Daemon(e) | Error::Io(e) => Some(e),
            _ => None,
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Daemon(e) | Error::Io(e) => e,
            Error::NoDaemon(_) => io::Error::new(io::ErrorKind::NotFound, error),
            _ => io::Error::new(io::Error::from_raw_os_error(error.errno()).kind(), error),
        }
    }
}

/// The result of a call that returns an int: 0 or a count.
#[inline]
pub(crate) fn check(r: i32) -> Result<u32> {
    u32::try_from(r).map_err(|_| Error::new(-r))
}

/// The result of a call that returns an `ssize_t`.
#[inline]
pub(crate) fn check_size(n: isize) -> Result<usize> {
    usize::try_from(n).map_err(|_| Error::new(errno_of(n)))
}

/// The errno that a negative `ssize_t` stands for; 0 where it is none.
#[inline]
pub(crate) fn errno_of(n: isize) -> i32 {
    if n < 0 {
        i32::try_from(-n).unwrap_or(EINVAL)
    } else {
        0
    }
}

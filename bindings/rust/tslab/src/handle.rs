use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU64;

/// Names an object in all processes of its pool. It may be stored in the pool, as a number.
///
/// `T` is the type of the object, or `[u8]` for bytes. A handle keeps nothing alive: a call with a handle whose object
/// was freed is [`Error::Stale`](crate::Error::Stale).
pub struct Handle<T: ?Sized = [u8]> {
    number: NonZeroU64,
    _type: PhantomData<fn() -> *const T>,
}

impl<T: ?Sized> Handle<T> {
    /// The handle of a number, as [`Handle::raw`] told it; nothing for 0. Any number will do: a pool finds out whether it
    /// names a live object, and [`Plain`] types take any bytes.
    #[must_use]
    pub fn from_raw(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(|number| Handle { number, _type: PhantomData })
    }

    /// The number by which the library knows the object.
    #[must_use]
    pub fn raw(self) -> u64 {
        self.number.get()
    }

    /// The same object, as another type.
    #[must_use]
    pub fn cast<U: ?Sized>(self) -> Handle<U> {
        Handle { number: self.number, _type: PhantomData }
    }

    /// The library never returns 0.
    pub(crate) fn returned(number: u64) -> Self {
        Self::from_raw(number).expect("libtslab returned handle 0")
    }
}

impl<T: ?Sized> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: ?Sized> Copy for Handle<T> {}
impl<T: ?Sized> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl<T: ?Sized> Eq for Handle<T> {}
impl<T: ?Sized> Hash for Handle<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}
impl<T: ?Sized> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({:#x})", self.number)
    }
}

/// Types that are their bytes: any bytes of the right number are a value, no byte is padding, and nothing in them is a
/// pointer. Objects of these types may be shared with other processes, which can write anything at any time.
///
/// [`plain!`](crate::plain) declares structs that are plain, and checks it.
///
/// # Safety
///
/// The type has no padding, and each pattern of bits is a value of it. Its alignment is 16 at most.
pub unsafe trait Plain: Copy + 'static {}

macro_rules! plain_numbers {
    ($($name:ty)*) => {$(
        // SAFETY: numbers have no padding, and all patterns of bits are numbers.
        unsafe impl Plain for $name {}
    )*};
}
plain_numbers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

// SAFETY: an array is its elements, one behind the other.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Declares a struct of plain fields, without padding, as [`Plain`]. A struct that has padding is an error of the
/// compiler: give the bytes a name.
///
/// ```
/// tslab::plain! {
///     #[derive(Debug, PartialEq)]
///     pub struct Point {
///         pub x: f64,
///         pub y: f64,
///     }
/// }
///
/// let pool = tslab::Pool::create()?;
/// let handle = pool.make(&Point { x: 1.0, y: 2.0 })?;
/// assert_eq!(pool.load(handle)?, Point { x: 1.0, y: 2.0 });
/// # Ok::<(), tslab::Error>(())
/// ```
///
/// ```compile_fail
/// tslab::plain! {
///     struct Padded {
///         small: u8,
///         large: u64,
///     }
/// }
/// ```
#[macro_export]
macro_rules! plain {
    ($(#[$attribute:meta])* $visible:vis struct $name:ident {
        $($(#[$field_attribute:meta])* $field_visible:vis $field:ident: $type:ty),+ $(,)?
    }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy)]
        #[repr(C)]
        $visible struct $name {
            $($(#[$field_attribute])* $field_visible $field: $type),+
        }

        const _: () = {
            const fn is_plain<T: $crate::Plain>() {}
            $(is_plain::<$type>();)+
            // Negative, and an error, where there is padding.
            let _padding: [(); 0] =
                [(); ::core::mem::size_of::<$name>() - (0 $(+ ::core::mem::size_of::<$type>())+)];
        };
        // SAFETY: the fields are plain, and nothing is between them.
        unsafe impl $crate::Plain for $name {}
    };
}

//! Tells a forked child from its parent. Pending objects and claims belong to one process. A forked child has
//! copies of their owners; dropping a copy must not release what the parent has.

#[cfg(not(miri))]
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// A number of this process that no ancestor of it has had.
#[cfg(not(miri))]
pub(crate) fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);

    let page = match page() {
        Some(page) => page,
        None => return u64::from(std::process::id()),
    };
    let number = page.load(Ordering::Relaxed);
    if number != 0 {
        return number;
    }
    let new = NEXT.fetch_add(1, Ordering::Relaxed);
    match page.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => new,
        Err(other) => other,
    }
}

/// A word that the kernel zeroes in a forked child, whichever call made it.
#[cfg(not(miri))]
fn page() -> Option<&'static AtomicU64> {
    use std::os::raw::{c_int, c_void};

    extern "C" {
        fn mmap(
            address: *mut c_void,
            size: usize,
            protection: c_int,
            flags: c_int,
            fd: c_int,
            at: isize,
        ) -> *mut c_void;
        fn munmap(address: *mut c_void, size: usize) -> c_int;
        fn madvise(address: *mut c_void, size: usize, advice: c_int) -> c_int;
    }
    const SIZE: usize = 4096;
    const READ_WRITE: c_int = 3;
    const PRIVATE_ANONYMOUS: c_int = 0x22;
    const WIPEONFORK: c_int = 18;
    static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

    let page = PAGE.load(Ordering::Acquire);
    if !page.is_null() {
        // SAFETY: the page is never unmapped once it is there, and begins with an aligned word.
        return Some(unsafe { &*page });
    }
    // SAFETY: new memory, which nobody else knows.
    unsafe {
        let new = mmap(std::ptr::null_mut(), SIZE, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0);
        if new as isize == -1 {
            return None;
        }
        if madvise(new, SIZE, WIPEONFORK) != 0 {
            munmap(new, SIZE);
            return None;
        }
        match PAGE.compare_exchange(std::ptr::null_mut(), new.cast(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(&*new.cast()),
            Err(other) => {
                munmap(new, SIZE);
                Some(&*other)
            }
        }
    }
}

#[cfg(miri)]
pub(crate) fn number() -> u64 {
    u64::from(std::process::id())
}

#[cfg(test)]
mod tests {
    #[test]
    fn number_stays() {
        assert_eq!(super::number(), super::number());
    }
}

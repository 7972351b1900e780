use std::ffi::CString;
use std::os::raw::c_char;

use crate::error::{Error, Result, EINVAL};

/// A text for the library, which ends with a 0.
pub(crate) struct Text(CString);

impl Text {
    pub(crate) fn new(text: &str) -> Result<Self> {
        CString::new(text).map(Text).map_err(|_| Error::new(EINVAL))
    }

    pub(crate) fn as_ptr(&self) -> *const c_char {
        self.0.as_ptr()
    }
}

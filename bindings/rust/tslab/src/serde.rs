//! Values of serde in a cache, as CBOR or JSON.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

use serde::de::DeserializeOwned;
use serde::Serialize;

use crate::cache::Stored;
use crate::error::{Error, Result};
use crate::value::{is_described, Value, MAGIC};

/// A value of serde that is stored as CBOR: small, with bytes and all numbers.
///
/// ```
/// use std::collections::BTreeMap;
/// use tslab::{Cache, Cbor};
///
/// let pool = tslab::Pool::create()?;
/// let carts: Cache<str, Cbor<BTreeMap<String, u32>>> = Cache::new(&pool, "carts")?;
/// carts.set("alice", &Cbor([("apples".to_string(), 3)].into()))?;
/// assert_eq!(carts.get("alice")?.expect("it is there")["apples"], 3);
/// # Ok::<(), tslab::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cbor<T>(pub T);

/// A value of serde that is stored as JSON, which PHP reads, too. It reads CBOR as well, as [`Cbor`] reads JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Json<T>(pub T);

/// Both read what other languages wrote: text, counters, CBOR, and JSON inside it.
fn decoded<T: DeserializeOwned>(bytes: Vec<u8>, is_counter: bool) -> Option<T> {
    if is_described(&bytes) {
        // JSON inside of CBOR, and CBOR of lengths that come at the end, go by way of a `Value`.
        if let Ok(value) = ciborium::from_reader::<T, _>(&bytes[MAGIC.len()..]) {
            return Some(value);
        }
    }
    match Value::from_bytes(bytes, is_counter)? {
        Value::Bytes(bytes) => match String::from_utf8(bytes) {
            Ok(text) => cbor_of(&Value::Text(text)),
            Err(e) => cbor_of(&Value::Bytes(e.into_bytes())),
        },
        value => cbor_of(&value),
    }
}

fn cbor_of<T: DeserializeOwned>(value: &Value) -> Option<T> {
    ciborium::from_reader(&value.to_cbor()[..]).ok()
}

impl<T: Serialize + DeserializeOwned> Stored for Cbor<T> {
    fn encode(&self) -> Result<Cow<'_, [u8]>> {
        let mut bytes = MAGIC.to_vec();
        ciborium::into_writer(&self.0, &mut bytes).map_err(|_| Error::Invalid)?;
        Ok(Cow::Owned(bytes))
    }

    fn decode(bytes: Vec<u8>, is_counter: bool) -> Option<Self> {
        decoded(bytes, is_counter).map(Cbor)
    }
}

impl<T: Serialize + DeserializeOwned> Stored for Json<T> {
    fn encode(&self) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Owned(Value::embedded_json(&serde_json::to_string(&self.0).map_err(|_| Error::Invalid)?)))
    }

    fn decode(bytes: Vec<u8>, is_counter: bool) -> Option<Self> {
        decoded(bytes, is_counter).map(Json)
    }
}

macro_rules! transparent {
    ($($name:ident)*) => {$(
        impl<T> Deref for $name<T> {
            type Target = T;

            fn deref(&self) -> &T {
                &self.0
            }
        }

        impl<T> DerefMut for $name<T> {
            fn deref_mut(&mut self) -> &mut T {
                &mut self.0
            }
        }
    )*};
}
transparent!(Cbor Json);

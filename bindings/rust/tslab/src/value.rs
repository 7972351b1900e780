//! Values as bytes, in the format that all languages share.
//!
//! Text and bytes are themselves, and a counter is a counter. All else is one item of CBOR (RFC 8949) behind the tag for
//! "self-described CBOR", the bytes D9 D9 F7; so are bytes that begin with these.

use std::fmt::Write;

use crate::limiter::counted;

pub(crate) const MAGIC: [u8; 3] = [0xd9, 0xd9, 0xf7];
const TAG_JSON: u64 = 262;
// Bytes of serialize() of PHP, igbinary and msgpack, which are no values elsewhere.
const TAGS_PHP: std::ops::RangeInclusive<u64> = 0x5453_4c01..=0x5453_4c03;
const DEPTH_MAX: u32 = 128; // of lists and maps: bytes of others must not exhaust the stack

/// Any value that languages exchange.
///
/// ```
/// use tslab::{Cache, Value};
///
/// let pool = tslab::Pool::create()?;
/// let cache: Cache<str, Value> = Cache::new(&pool, "cache")?;
/// cache.set("alice", &Value::map([("name", "Alice".into()), ("visits", 127.into())]))?;
/// let alice = cache.get("alice")?.expect("it is there");
/// assert_eq!(alice["visits"], 127.into());
/// # Ok::<(), tslab::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value: a member that is not there is this, too.
    Null,
    /// True or false.
    Bool(bool),
    /// Any integer of 64 bits, with or without sign.
    Int(i128),
    /// A number with a fraction.
    Float(f64),
    /// Bytes, and the texts of languages that do not tell them apart.
    Bytes(Vec<u8>),
    /// Text.
    Text(String),
    /// Values in an order.
    List(Vec<Value>),
    /// Values by key.
    Map(Vec<(Value, Value)>),
}

static NULL: Value = Value::Null;

impl Value {
    /// Makes a map with text for keys.
    #[must_use]
    pub fn map<'a>(entries: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        Value::Map(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    /// The text, also where it is plain bytes.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            Value::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The integer.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Int(number) => i64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// The number.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // as all languages do it
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Int(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// The values of a list.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Value::List(values) => Some(values),
            _ => None,
        }
    }

    /// The bytes under which other languages find the value. Lists and maps are JSON inside of CBOR, as all languages read
    /// that, or CBOR alone where JSON does not take them.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Value::Bytes(bytes) if !is_described(bytes) => bytes.clone(),
            Value::Text(text) => text.clone().into_bytes(),
            Value::List(_) | Value::Map(_) if self.to_json().is_some() => {
                Value::embedded_json(&self.to_json().unwrap_or_default())
            }
            _ => {
                let mut to = MAGIC.to_vec();
                self.put(&mut to);
                to
            }
        }
    }

    /// The value of bytes; nothing where they are none, or of a serializer of PHP alone.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>, is_counter: bool) -> Option<Self> {
        if is_counter {
            return counted(&bytes).map(Value::from);
        }
        if !is_described(&bytes) {
            return Some(Value::Bytes(bytes));
        }
        let mut from = Reader(&bytes[MAGIC.len()..]);
        let value = from.value(0)?;
        from.0.is_empty().then_some(value)
    }

    /// The value of a text of JSON.
    #[must_use]
    pub fn from_json(text: &str) -> Option<Self> {
        let mut from = Json(text.as_bytes());
        let value = from.value(0)?;
        from.space();
        from.0.is_empty().then_some(value)
    }

    /// The value as JSON. Bytes that are no UTF-8, numbers that are none, and keys that are no text do not go.
    #[must_use]
    pub fn to_json(&self) -> Option<String> {
        let mut to = String::new();
        self.put_json(&mut to)?;
        Some(to)
    }

    /// The value as an item of CBOR alone.
    #[cfg(feature = "serde")]
    pub(crate) fn to_cbor(&self) -> Vec<u8> {
        let mut to = Vec::new();
        self.put(&mut to);
        to
    }

    /// The bytes of a text of JSON.
    pub(crate) fn embedded_json(text: &str) -> Vec<u8> {
        let mut to = MAGIC.to_vec();
        head(&mut to, 6, TAG_JSON);
        Value::Text(text.into()).put(&mut to);
        to
    }

    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Value::Null => to.push(0xf6),
            Value::Bool(is_true) => to.push(if *is_true { 0xf5 } else { 0xf4 }),
            Value::Int(number) if *number >= 0 => head(to, 0, u64::try_from(*number).unwrap_or(u64::MAX)),
            Value::Int(number) => head(to, 1, u64::try_from(-1 - *number).unwrap_or(u64::MAX)),
            Value::Float(number) => {
                to.push(0xfb);
                to.extend(number.to_be_bytes());
            }
            Value::Bytes(bytes) => {
                head(to, 2, bytes.len() as u64);
                to.extend(bytes);
            }
            Value::Text(text) => {
                head(to, 3, text.len() as u64);
                to.extend(text.as_bytes());
            }
            Value::List(values) => {
                head(to, 4, values.len() as u64);
                for value in values {
                    value.put(to);
                }
            }
            Value::Map(entries) => {
                head(to, 5, entries.len() as u64);
                for (key, value) in entries {
                    key.put(to);
                    value.put(to);
                }
            }
        }
    }

    fn put_json(&self, to: &mut String) -> Option<()> {
        match self {
            Value::Null => to.push_str("null"),
            Value::Bool(is_true) => to.push_str(if *is_true { "true" } else { "false" }),
            Value::Int(number) => to.push_str(&number.to_string()),
            Value::Float(number) if number.is_finite() => to.write_fmt(format_args!("{number:?}")).ok()?,
            Value::Float(_) => return None,
            Value::Bytes(_) | Value::Text(_) => put_json_text(to, self.as_str()?),
            Value::List(values) => {
                to.push('[');
                for (i, value) in values.iter().enumerate() {
                    to.push_str(if i > 0 { "," } else { "" });
                    value.put_json(to)?;
                }
                to.push(']');
            }
            Value::Map(entries) => {
                to.push('{');
                for (i, (key, value)) in entries.iter().enumerate() {
                    to.push_str(if i > 0 { "," } else { "" });
                    put_json_text(to, key.as_str()?);
                    to.push(':');
                    value.put_json(to)?;
                }
                to.push('}');
            }
        }
        Some(())
    }
}

pub(crate) fn is_described(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

fn head(to: &mut Vec<u8>, major: u8, number: u64) {
    let major = major << 5;
    let bytes = number.to_be_bytes();
    let (low, n) = match number {
        0..=23 => {
            to.push(major | bytes[7]);
            return;
        }
        24..=0xff => (24, 1),
        0x100..=0xffff => (25, 2),
        0x1_0000..=0xffff_ffff => (26, 4),
        _ => (27, 8),
    };
    to.push(major | low);
    to.extend(&bytes[8 - n..]);
}

fn put_json_text(to: &mut String, text: &str) {
    to.push('"');
    for c in text.chars() {
        match c {
            '"' => to.push_str("\\\""),
            '\\' => to.push_str("\\\\"),
            c if c < ' ' => drop(to.write_fmt(format_args!("\\u{:04x}", u32::from(c)))),
            c => to.push(c),
        }
    }
    to.push('"');
}

/// Bytes of CBOR that are still to be read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: u64) -> Option<&'a [u8]> {
        let n = usize::try_from(n).ok().filter(|n| *n <= self.0.len())?;
        let (taken, left) = self.0.split_at(n);
        self.0 = left;
        Some(taken)
    }

    /// The major type, the low bits of the head, and its number.
    fn head(&mut self) -> Option<(u8, u8, u64)> {
        let first = self.take(1)?[0];
        let low = first & 31;
        let n = match low {
            24..=27 => 1 << (low - 24),
            28..=30 => return None,
            _ => 0,
        };
        let number = self.take(n)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        Some((first >> 5, low, if n == 0 { u64::from(low) } else { number }))
    }

    fn value(&mut self, depth: u32) -> Option<Value> {
        if depth > DEPTH_MAX {
            return None;
        }
        let (major, low, number) = self.head()?;
        let is_endless = low == 31;
        match major {
            0 if !is_endless => Some(Value::Int(number.into())),
            1 if !is_endless => Some(Value::Int(-1 - i128::from(number))),
            2 => self.bytes(2, is_endless, number).map(Value::Bytes),
            3 => String::from_utf8(self.bytes(3, is_endless, number)?).ok().map(Value::Text),
            4 => {
                let mut values = Vec::new();
                while self.has_more(is_endless, number, values.len())? {
                    values.push(self.value(depth + 1)?);
                }
                Some(Value::List(values))
            }
            5 => {
                let mut entries = Vec::new();
                while self.has_more(is_endless, number, entries.len())? {
                    entries.push((self.value(depth + 1)?, self.value(depth + 1)?));
                }
                Some(Value::Map(entries))
            }
            6 if TAGS_PHP.contains(&number) || is_endless => None,
            6 => {
                let value = self.value(depth + 1)?;
                if number == TAG_JSON {
                    return Value::from_json(value.as_str()?);
                }
                Some(value) // of no tag that means anything here
            }
            7 => simple(low, number),
            _ => None,
        }
    }

    fn bytes(&mut self, major: u8, is_endless: bool, n: u64) -> Option<Vec<u8>> {
        if !is_endless {
            return self.take(n).map(<[u8]>::to_vec);
        }
        let mut bytes = Vec::new();
        while self.has_more(true, 0, 0)? {
            let (part_major, low, n) = self.head()?;
            if part_major != major || low == 31 {
                return None;
            }
            bytes.extend(self.take(n)?);
        }
        Some(bytes)
    }

    /// Whether a list has more than `n_read`; takes the end of one that does not tell its length.
    fn has_more(&mut self, is_endless: bool, n: u64, n_read: usize) -> Option<bool> {
        if !is_endless {
            return Some((n_read as u64) < n);
        }
        let is_end = *self.0.first()? == 0xff;
        if is_end {
            self.0 = &self.0[1..];
        }
        Some(!is_end)
    }
}

fn simple(low: u8, number: u64) -> Option<Value> {
    Some(match (low, number) {
        (20 | 21, _) => Value::Bool(low == 21),
        (22 | 23, _) => Value::Null,
        (25, number) => Value::Float(half(u16::try_from(number).ok()?)),
        (26, number) => Value::Float(f32::from_bits(u32::try_from(number).ok()?).into()),
        (27, number) => Value::Float(f64::from_bits(number)),
        _ => return None,
    })
}

fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (u64::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    // 2 to the power of so many less 25, exactly, which powi() need not be.
    let power = |exponent: u64| f64::from_bits((1023 - 25 + exponent) << 52);
    let number = match exponent {
        0 => fraction * power(1),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (fraction + 1024.0) * power(exponent),
    };
    if bits & 0x8000 != 0 {
        -number
    } else {
        number
    }
}

/// A text of JSON that is still to be read.
struct Json<'a>(&'a [u8]);

impl Json<'_> {
    fn space(&mut self) {
        while let [b' ' | b'\t' | b'\n' | b'\r', left @ ..] = self.0 {
            self.0 = left;
        }
    }

    fn takes(&mut self, text: &str) -> bool {
        self.space();
        let left = self.0.strip_prefix(text.as_bytes());
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }

    fn value(&mut self, depth: u32) -> Option<Value> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.space();
        match *self.0.first()? {
            b'n' => self.takes("null").then_some(Value::Null),
            b't' => self.takes("true").then_some(Value::Bool(true)),
            b'f' => self.takes("false").then_some(Value::Bool(false)),
            b'"' => self.text().map(Value::Text),
            b'[' => {
                self.takes("[");
                let mut values = Vec::new();
                if self.takes("]") {
                    return Some(Value::List(values));
                }
                loop {
                    values.push(self.value(depth + 1)?);
                    if !self.takes(",") {
                        return self.takes("]").then_some(Value::List(values));
                    }
                }
            }
            b'{' => {
                self.takes("{");
                let mut entries = Vec::new();
                if self.takes("}") {
                    return Some(Value::Map(entries));
                }
                loop {
                    self.space();
                    let key = Value::Text(self.text()?);
                    if !self.takes(":") {
                        return None;
                    }
                    entries.push((key, self.value(depth + 1)?));
                    if !self.takes(",") {
                        return self.takes("}").then_some(Value::Map(entries));
                    }
                }
            }
            _ => self.number(),
        }
    }

    fn number(&mut self) -> Option<Value> {
        let is_part = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let n = self.0.iter().take_while(is_part).count();
        let (text, left) = self.0.split_at(n);
        let text = std::str::from_utf8(text).ok()?;
        self.0 = left;
        if text.contains(&['.', 'e', 'E'][..]) {
            return text.parse().ok().map(Value::Float);
        }
        text.parse().ok().map(Value::Int)
    }

    fn text(&mut self) -> Option<String> {
        if !self.takes("\"") {
            return None;
        }
        let mut bytes = Vec::new();
        loop {
            let (first, left) = self.0.split_first()?;
            self.0 = left;
            match first {
                b'"' => return String::from_utf8(bytes).ok(),
                b'\\' => {
                    let c = self.escape()?;
                    bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                byte => bytes.push(*byte),
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        let (first, left) = self.0.split_first()?;
        self.0 = left;
        Some(match first {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let high = self.hex()?;
                if !(0xd800..0xdc00).contains(&high) {
                    return char::from_u32(high);
                }
                if !self.0.starts_with(b"\\u") {
                    return None;
                }
                self.0 = &self.0[2..];
                let low = self.hex()?.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
                char::from_u32(0x1_0000 + ((high - 0xd800) << 10 | low))?
            }
            b'"' | b'\\' | b'/' => char::from(*first),
            _ => return None,
        })
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.0.get(..4)?;
        self.0 = &self.0[4..];
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    }
}

/// The value of a key of a map; [`Value::Null`] where there is none.
impl std::ops::Index<&str> for Value {
    type Output = Value;

    fn index(&self, key: &str) -> &Value {
        let entries = match self {
            Value::Map(entries) => entries,
            _ => return &NULL,
        };
        entries.iter().find(|(name, _)| name.as_str() == Some(key)).map_or(&NULL, |(_, value)| value)
    }
}

macro_rules! from_types {
    ($($type:ty => |$it:ident| $value:expr;)*) => {$(
        impl From<$type> for Value {
            fn from($it: $type) -> Self {
                $value
            }
        }
    )*};
}
from_types! {
    bool => |it| Value::Bool(it);
    i32 => |it| Value::Int(it.into());
    u32 => |it| Value::Int(it.into());
    i64 => |it| Value::Int(it.into());
    u64 => |it| Value::Int(it.into());
    f64 => |it| Value::Float(it);
    &str => |it| Value::Text(it.into());
    String => |it| Value::Text(it);
    Vec<u8> => |it| Value::Bytes(it);
    Vec<Value> => |it| Value::List(it);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
    }

    /// Examples of RFC 8949, appendix A.
    #[test]
    fn value_of_rfc() {
        let cases: [(&str, Value); 22] = [
            ("00", 0.into()),
            ("17", 23.into()),
            ("1818", 24.into()),
            ("1903e8", 1000.into()),
            ("1a000f4240", 1_000_000.into()),
            ("1bffffffffffffffff", u64::MAX.into()),
            ("20", (-1).into()),
            ("3903e7", (-1000).into()),
            ("fb3ff199999999999a", 1.1.into()),
            ("f4", false.into()),
            ("f5", true.into()),
            ("f6", Value::Null),
            ("f97bff", 65504.0.into()),
            ("f90001", 5.960_464_477_539_063e-8.into()),
            ("fa47c35000", 100_000.0.into()),
            ("4401020304", vec![1, 2, 3, 4].into()),
            ("6449455446", "IETF".into()),
            ("83010203", vec![1.into(), 2.into(), Value::from(3)].into()),
            ("9f0102ff", vec![1.into(), Value::from(2)].into()),
            ("5f42010243030405ff", vec![1, 2, 3, 4, 5].into()),
            ("a26161016162820203", Value::map([("a", 1.into()), ("b", vec![2.into(), Value::from(3)].into())])),
            ("c11a514b67b0", 1_363_896_240.into()),
        ];
        for (text, value) in cases {
            let bytes = hex(&format!("d9d9f7{text}"));
            assert_eq!(Value::from_bytes(bytes.clone(), false).as_ref(), Some(&value), "{text}");
            assert_eq!(Value::from_bytes(value.to_bytes(), false).and_then(|v| v.to_json()), value.to_json(), "{text}");
            for n in 3..bytes.len() {
                assert_eq!(Value::from_bytes(bytes[..n].to_vec(), false), None, "{text} cut at {n}");
            }
        }
    }

    #[test]
    fn value_of_json() {
        let text = r#"{"a":[1,-2,0.5,null,true,false],"größe":"\"\\\u00fc\n🙂","b":{},"c":[]}"#;
        let value = Value::from_json(text).unwrap();
        assert_eq!(value["größe"].as_str(), Some("\"\\ü\n🙂"));
        assert_eq!(Value::from_json(&value.to_json().unwrap()), Some(value));
        assert_eq!(Value::from_json(" \"\\ud83d\\ude42\" ").unwrap().as_str(), Some("🙂"));
        for wrong in ["", "[", "[1", "[1,]", "{\"a\"}", "{\"a\":}", "\"", "\"\\u12\"", "\"\\ud83d\"", "tru", "1 2", "-"]
        {
            assert_eq!(Value::from_json(wrong), None, "{wrong}");
        }
        assert_eq!(Value::from_json(&"[".repeat(100_000)), None);
        let embedded = [&hex("d9d9f7d90106")[..], &hex("6a"), br#"{"a":[127]"#, b"}"].concat();
        assert_eq!(Value::from_bytes(embedded, false), None); // its length is short by one
        let embedded = [&hex("d9d9f7d90106")[..], &hex("6b"), br#"{"a":[127]}"#].concat();
        assert_eq!(Value::from_bytes(embedded, false).unwrap()["a"].as_list(), Some(&[Value::from(127)][..]));
    }

    #[test]
    fn value_of_bytes() {
        assert_eq!(Value::from("apple").to_bytes(), b"apple");
        let described = Value::Bytes(hex("d9d9f7f6"));
        assert_eq!(Value::from_bytes(described.to_bytes(), false), Some(described));
        assert_eq!(Value::from_bytes(7i64.to_ne_bytes().to_vec(), true), Some(7.into()));
        assert_eq!(Value::from_bytes(vec![1, 2], true), None);
        assert_eq!(Value::from_bytes(hex("d9d9f7da54534c014161"), false), None);
        assert_eq!(Value::from_bytes([hex("d9d9f7"), vec![0x81; 100_000]].concat(), false), None);
        assert_eq!(Value::from_bytes(hex("d9d9f79bffffffffffffffff"), false), None);
    }
}

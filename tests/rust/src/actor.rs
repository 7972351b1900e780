//! The actor of the conformance suite: tests/conformance/README.md.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::time::Duration;

use tslab::{Claiming, Error, Evict, Map, MapOptions, Pool, Put, Result, Ttl, Value, Version};

struct Actor {
    socket: String,
    pool: Option<Pool>,
    maps: HashMap<String, Map>,
    claims: HashMap<u64, tslab::Claim>,
}

/// A request; members that are not there are null.
struct Request<'a>(&'a Value);

impl Request<'_> {
    fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        unhex(self.text(name))
    }

    fn list(&self, name: &str) -> Vec<Vec<u8>> {
        self.0[name].as_list().unwrap_or_default().iter().map(|v| unhex(v.as_str().unwrap())).collect()
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.0[name].as_f64().map(|number| number as u64)
    }

    fn time(&self, name: &str) -> Option<Duration> {
        self.number(name).map(Duration::from_millis)
    }

    fn put(&self) -> Put {
        Put::new().ttl(self.time("ttl_ms").map_or(Ttl::Map, Ttl::After))
    }

    fn version(&self) -> Version {
        Version::from_raw(self.text("version").parse().unwrap_or(0))
    }

    fn long(&self, name: &str) -> i64 {
        self.0[name].as_i64().unwrap_or_else(|| self.text(name).parse().unwrap_or(0))
    }
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> Value {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

/// An answer other than `ok`: an errno's name, and perhaps the version of a claim.
enum Failure {
    Error(Error),
    Name(&'static str),
    Busy(Version),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Error(error)
    }
}

fn expect(is_so: bool, name: &'static str) -> std::result::Result<Value, Failure> {
    if is_so {
        Ok(Value::Null)
    } else {
        Err(Failure::Name(name))
    }
}

fn version(version: Version) -> Value {
    Value::map([("version", version.raw().to_string().into())])
}

fn name_of(error: &Error) -> String {
    const NAMES: [(i32, &str); 18] = [
        (2, "ENOENT"),
        (7, "E2BIG"),
        (9, "EBADF"),
        (11, "EAGAIN"),
        (12, "ENOMEM"),
        (16, "EBUSY"),
        (17, "EEXIST"),
        (22, "EINVAL"),
        (28, "ENOSPC"),
        (30, "EROFS"),
        (35, "EDEADLK"),
        (43, "EIDRM"),
        (90, "EMSGSIZE"),
        (75, "EOVERFLOW"),
        (108, "ESHUTDOWN"),
        (110, "ETIMEDOUT"),
        (116, "ESTALE"),
        (117, "EUCLEAN"),
    ];
    let number = error.errno();
    NAMES.iter().find(|(n, _)| *n == number).map_or_else(|| number.to_string(), |(_, name)| (*name).into())
}

impl Actor {
    fn pool(&mut self) -> Result<Pool> {
        if self.pool.is_none() {
            self.pool = Some(Pool::open(&self.socket)?);
        }
        Ok(self.pool.clone().unwrap())
    }

    fn open(&mut self, r: &Request) -> Result<Map> {
        let mut options = MapOptions::new();
        if let Some(ttl) = r.time("ttl_ms") {
            options = options.ttl(ttl);
        }
        if let Some(bytes) = r.number("limit_bytes") {
            options = options.limit_bytes(bytes);
        }
        if let Some(bytes) = r.number("value_max") {
            options = options.value_max(bytes.try_into().unwrap_or(u32::MAX));
        }
        if let Some(stale) = r.time("stale_ms") {
            options = options.stale(stale);
        }
        if r.text("evict") == "sieve" {
            options = options.evict(Evict::Sieve);
        }
        self.pool()?.map_with(r.text("name"), &options)
    }

    fn answer(&mut self, r: &Request) -> std::result::Result<Value, Failure> {
        let (key, value) = (r.bytes("key"), r.bytes("value"));
        match r.text("call") {
            "map" => {
                let map = self.open(r)?;
                self.maps.insert(r.text("map").into(), map);
                return Ok(Value::Null);
            }
            "close" => {
                self.claims.clear();
                self.maps.clear();
                self.pool = None;
                return Ok(Value::Null);
            }
            "close_map" => {
                self.maps.remove(r.text("map"));
                return Ok(Value::Null);
            }
            _ => {}
        }
        let m = self.maps.get(r.text("map")).ok_or(Failure::Name("EBADF"))?;
        match r.text("call") {
            "get" => m.get(&key)?.map(|v| hex(&v)).ok_or(Failure::Name("ENOENT")),
            "take" => m.take(&key)?.map(|v| hex(&v)).ok_or(Failure::Name("ENOENT")),
            "info" => {
                let entry = if r.0["stale"] == Value::Bool(true) { m.get_stale(&key)? } else { m.get_entry(&key)? };
                let entry = entry.ok_or(Failure::Name("ENOENT"))?;
                let left = entry.ttl_left.map_or(Value::Null, |left| (left.as_millis() as u64).into());
                Ok(Value::map([
                    ("value", hex(&entry.value)),
                    ("version", entry.version.raw().to_string().into()),
                    ("stale", entry.is_stale.into()),
                    ("counter", entry.is_counter.into()),
                    ("ttl_left_ms", left),
                ]))
            }
            "put" => Ok(m.put_with(&key, &value, r.put()).map(|()| Value::Null)?),
            "insert" => expect(m.insert(&key, &value, r.put())?, "EEXIST"),
            "update" => expect(m.update(&key, &value, r.put())?, "ENOENT"),
            "replace" => {
                let done = match self.claims.remove(&r.version().raw()) {
                    Some(claim) => claim.fulfil(&value, r.put())?,
                    None => m.replace(&key, r.version(), &value, r.put())?,
                };
                expect(done, "EAGAIN")
            }
            "touch" => expect(m.touch(&key, r.time("ttl_ms").unwrap_or_default())?, "ENOENT"),
            "delete" if r.0["version"] == Value::Null => expect(m.delete(&key)?, "ENOENT"),
            "delete" => {
                let is_there = m.contains_key(&key)? || !m.wait(&key, Version::ABSENT, Duration::ZERO)?;
                let done = match self.claims.remove(&r.version().raw()) {
                    Some(claim) => claim.give_up()?,
                    None => m.delete_version(&key, r.version())?,
                };
                expect(done, if is_there { "EAGAIN" } else { "ENOENT" })
            }
            "add" => {
                let ttl = r.time("ttl_ms").map_or(Ttl::Map, Ttl::After);
                Ok(m.add_with(&key, r.long("delta"), r.long("initial"), ttl)?.to_string().into())
            }
            "set_counter" => {
                let ttl = r.time("ttl_ms").map_or(Ttl::Map, Ttl::After);
                Ok(m.set_counter(&key, r.long("number"), ttl).map(|()| Value::Null)?)
            }
            "limit" => {
                let number = |name| r.number(name).unwrap_or(0).try_into().unwrap_or(u32::MAX);
                let wait = m.limit(&key, r.0["per_second"].as_f64().unwrap(), number("burst"), number("cost"))?;
                Ok((wait.unwrap_or_default().as_millis() as u64).into())
            }
            "claim" => match m.claim(&key, r.time("limit_ms").unwrap_or(tslab::CLAIM_TIME))? {
                Claiming::Mine(claim) => {
                    let answer = version(claim.version());
                    self.claims.insert(claim.version().raw(), claim);
                    Ok(answer)
                }
                Claiming::Other(version) => Err(Failure::Busy(version)),
                Claiming::HasValue => Err(Failure::Name("EEXIST")),
            },
            "extend" => {
                let time = r.time("limit_ms").unwrap_or_default();
                let mut claim = self.claims.remove(&r.version().raw()).ok_or(Failure::Name("EAGAIN"))?;
                if !claim.extend(time)? {
                    return Err(Failure::Name("EAGAIN"));
                }
                let answer = version(claim.version());
                self.claims.insert(claim.version().raw(), claim);
                Ok(answer)
            }
            "wait" => expect(m.wait(&key, r.version(), r.time("timeout_ms").unwrap_or_default())?, "ETIMEDOUT"),
            "get_many" => {
                let values = m.get_many(&r.list("keys"))?;
                Ok(values.into_iter().map(|v| v.map_or(Value::Null, |v| hex(&v))).collect::<Vec<_>>().into())
            }
            "put_many" => {
                let entries: Vec<_> = r.list("keys").into_iter().zip(r.list("values")).collect();
                m.put_many(&entries, r.put())?.into_iter().collect::<Result<()>>()?;
                Ok(Value::Null)
            }
            "walk" => {
                let entries = m.iter().collect::<Result<Vec<_>>>()?;
                let pairs = entries.iter().map(|(key, entry)| Value::List(vec![hex(key), hex(&entry.value)]));
                Ok(pairs.collect::<Vec<_>>().into())
            }
            "count" => Ok((m.count()? as u64).into()),
            other => panic!("there is no call {other:?}"),
        }
    }
}

pub fn run(socket: &str) {
    let mut actor = Actor { socket: socket.into(), pool: None, maps: HashMap::new(), claims: HashMap::new() };
    let mut out = std::io::stdout();
    writeln!(out, r#"{{"binding": "rust", "lacks": []}}"#).unwrap();
    for line in std::io::stdin().lock().lines() {
        let request = Value::from_json(&line.unwrap()).expect("a request is JSON");
        let reply = match actor.answer(&Request(&request)) {
            Ok(value) => Value::map([("ok", value)]),
            Err(Failure::Error(error)) => Value::map([("error", name_of(&error).into())]),
            Err(Failure::Name(name)) => Value::map([("error", name.into())]),
            Err(Failure::Busy(version)) => {
                Value::map([("error", "EBUSY".into()), ("version", version.raw().to_string().into())])
            }
        };
        writeln!(out, "{}", reply.to_json().unwrap()).unwrap();
    }
    std::process::exit(0); // claims stand as long as the process
}

//! Workers that are killed while they count, compute, put and take turns. Each tells of a step before it and after it, so
//! that the sums have bounds: `+` an add begins, `.` it is done, `W` a wrong value, `H` a lock that nobody has.

use std::io::Write;
use std::time::Duration;

use tslab::{Cache, Lock, Pool, Put};

/// A number for each call, which other workers do not have.
fn random(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 33) as usize
}

pub fn work(socket: &str) {
    let pool = Pool::open(socket).unwrap();
    let map = pool.map("kills").unwrap();
    let cache: Cache<str, Vec<u8>> = Cache::new(&pool, "computed").unwrap();
    let lock = Lock::new(&map, "turn");
    let mut out = std::io::stdout();
    let mut tell = |text: &str| out.write_all(text.as_bytes()).unwrap();
    let mut state = u64::from(std::process::id()) << 20 | 1;
    let me = std::process::id().to_string();
    for i in 0_u64.. {
        tell("+");
        map.add("sum", 1).unwrap();
        tell(".\n"); // the line buffer of stdout goes out
        let key = format!("key{}", random(&mut state) % 50);
        let value = cache.get_or_compute(&key, || [key.as_bytes(), &vec![b'x'; random(&mut state) % 3000]].concat());
        if !value.unwrap().starts_with(key.as_bytes()) {
            tell("W\n");
        }
        if i % 3 == 0 {
            cache.delete(&key).unwrap();
        }
        let id = format!("session{}", random(&mut state) % 10);
        map.put_with(&id, &id.repeat(random(&mut state) % 400 + 1), Put::new().ttl(Duration::from_secs(60))).unwrap();
        let found = String::from_utf8(map.get(&id).unwrap().unwrap()).unwrap();
        if !found.replace(&id, "").is_empty() {
            tell("W\n");
        }
        let object = pool.put(id.as_bytes()).unwrap();
        if !pool.read(object).unwrap().starts_with(id.as_bytes()) {
            tell("W\n");
        }
        pool.free(object).unwrap();
        match lock.acquire_timeout(Duration::from_secs(20)).unwrap() {
            Some(_held) => {
                map.put("owner", &me).unwrap();
                std::thread::sleep(Duration::from_micros(100));
                if map.get("owner").unwrap().as_deref() != Some(me.as_bytes()) {
                    tell("W\n");
                }
            }
            None => tell("H\n"),
        }
    }
}

pub fn tell_sum(socket: &str) {
    println!("{}", Pool::open(socket).unwrap().map("kills").unwrap().counter("sum").get().unwrap());
}

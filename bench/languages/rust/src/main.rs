//! Calls of the crate, those of the C library beside them, which this program makes itself, and moka: `main SOCKET SECONDS`.
//! Prints one JSON object for each of the three: the medians of rounds over all keys, in runs that alternate.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::os::raw::c_void;
use std::ptr;
use std::time::{Duration, Instant};

use tslab::{Epoch, Map, Pool};
use tslab_sys as sys;

const KEYS: usize = 1000;
const VALUE: [u8; 256] = [7; 256];
const RUNS: u32 = 9;

/// Of which name, which call, and the call with a number.
type Contender<'a> = (&'a str, &'a str, Box<dyn FnMut(usize) + 'a>);

fn keys() -> Vec<String> {
    (0..KEYS).map(|i| format!("session:{}", 100_000 + i)).collect()
}

fn c(key: &str) -> (*const c_void, usize) {
    (key.as_ptr().cast(), key.len())
}

const C: &str = "C, called by Rust";

fn maps<'a>(map: &'a Map, keys: &'a [String]) -> Vec<Contender<'a>> {
    let raw = map.raw();
    let (mut room, mut other) = ([0_u8; 1024], [0_u8; 1024]);
    let mut counter = map.counter("counter");
    vec![
        (
            C,
            "get into a buffer",
            Box::new(move |i| {
                let (key, size) = c(&keys[i]);
                // SAFETY: key and buffer have these sizes.
                let n = unsafe { sys::tslab_map_get(raw, key, size, room.as_mut_ptr().cast(), 1024, ptr::null_mut()) };
                assert_eq!(n, 256);
                black_box(&room);
            }),
        ),
        (
            "Rust",
            "get into a buffer",
            Box::new(move |i| {
                assert_eq!(map.get_into(&keys[i], &mut other).unwrap(), Some(256));
                black_box(&other);
            }),
        ),
        (
            "Rust",
            "get as bytes",
            Box::new(move |i| assert_eq!(black_box(&map.get(&keys[i]).unwrap().unwrap()[..]).len(), 256)),
        ),
        (
            C,
            "put",
            Box::new(move |i| {
                let (key, size) = c(&keys[i]);
                // SAFETY: key and value have these sizes.
                let r =
                    unsafe { sys::tslab_map_put(raw, key, size, VALUE.as_ptr().cast(), 256, sys::TSLAB_EPOCH_CURRENT) };
                assert_eq!(r, 0);
            }),
        ),
        ("Rust", "put", Box::new(move |i| map.put(&keys[i], &VALUE).unwrap())),
        ("Rust", "add", Box::new(move |_| drop(black_box(counter.add(1))))),
    ]
}

fn objects<'a>(pool: &'a Pool) -> Vec<Contender<'a>> {
    let raw = pool.raw();
    vec![
        (
            C,
            "alloc and free",
            Box::new(move |_| {
                let mut handle = 0;
                // SAFETY: the pool is open.
                unsafe {
                    assert_eq!(sys::tslab_alloc(raw, 128, sys::TSLAB_EPOCH_CURRENT, &mut handle, ptr::null_mut()), 0);
                    assert_eq!(sys::tslab_free(raw, handle), 0);
                }
            }),
        ),
        ("Rust", "alloc and free", Box::new(move |_| pool.free(pool.alloc_in(128, Epoch::CURRENT).unwrap()).unwrap())),
    ]
}

#[cfg(feature = "peers")]
fn peers(keys: &[String]) -> Vec<Contender<'_>> {
    let cache = moka::sync::Cache::<String, Vec<u8>>::new(100_000);
    let same = cache.clone();
    keys.iter().for_each(|key| cache.insert(key.clone(), VALUE.to_vec()));
    vec![
        ("Rust: moka", "put", Box::new(move |i| cache.insert(keys[i].clone(), VALUE.to_vec()))),
        ("Rust: moka", "get as bytes", Box::new(move |i| assert_eq!(black_box(&same.get(&keys[i]).unwrap()[..]).len(), 256))),
    ]
}

/// Nanoseconds a call, of one round over all keys.
fn round(call: &mut dyn FnMut(usize)) -> f64 {
    let begin = Instant::now();
    (0..KEYS).for_each(call);
    begin.elapsed().as_nanos() as f64 / KEYS as f64
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let pool = Pool::open(&arguments[1]).unwrap();
    let span = Duration::from_secs_f64(arguments[2].parse().unwrap()) / RUNS;
    let (map, keys) = (pool.map("rust").unwrap(), keys());
    keys.iter().for_each(|key| map.put(key, &VALUE).unwrap());
    let mut contenders = objects(&pool);
    contenders.extend(maps(&map, &keys));
    #[cfg(feature = "peers")]
    contenders.extend(peers(&keys));
    let mut times = vec![Vec::new(); contenders.len()];
    for _ in 0..RUNS {
        for ((_, _, call), times) in contenders.iter_mut().zip(&mut times) {
            round(call); // brings the call into the caches
            let end = Instant::now() + span;
            loop {
                times.push(round(call));
                if Instant::now() > end {
                    break;
                }
            }
        }
    }
    let mut results = BTreeMap::<_, Vec<_>>::new();
    for ((name, call, _), mut times) in contenders.iter().zip(times) {
        times.sort_by(f64::total_cmp);
        results.entry(name).or_default().push(format!("\"{call}\": {:.1}", times[times.len() / 2]));
    }
    for (name, calls) in results {
        println!("{{\"name\": \"{name}\", \"version\": \"{}\", \"ns\": {{{}}}}}", tslab::version(), calls.join(", "));
    }
}

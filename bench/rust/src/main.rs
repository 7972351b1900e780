//! Calls of the crate beside those of the C library, which this program makes itself, and beside moka: `main SOCKET N`.
//! Prints nanoseconds for each call, as JSON: the medians of runs that alternate.

use std::hint::black_box;
use std::os::raw::c_void;
use std::ptr;
use std::time::Instant;

use tslab::{Epoch, Map, Pool};
use tslab_sys as sys;

const KEYS: usize = 1000;
const VALUE: [u8; 256] = [7; 256];
const RUNS: usize = 9;

type Contender<'a> = (&'a str, Box<dyn Fn(usize) + 'a>);

fn key(i: usize) -> [u8; 16] {
    let mut key = *b"session-00000000";
    key[8..].copy_from_slice(&(i as u64 % KEYS as u64 * 0x1_0001).to_be_bytes());
    key
}

fn keys() -> Vec<[u8; 16]> {
    (0..KEYS).map(key).collect()
}

fn c(key: &[u8]) -> (*const c_void, usize) {
    (key.as_ptr().cast(), key.len())
}

fn maps<'a>(map: &'a Map, keys: &'a [[u8; 16]]) -> Vec<Contender<'a>> {
    let raw = map.raw();
    vec![
        (
            "get_c",
            Box::new(move |n| {
                let mut buffer = [0_u8; 1024];
                for i in 0..n {
                    let (key, size) = c(&keys[i % KEYS]);
                    // SAFETY: key and buffer have these sizes.
                    let n = unsafe {
                        sys::tslab_map_get(raw, key, size, buffer.as_mut_ptr().cast(), 1024, ptr::null_mut())
                    };
                    assert_eq!(n, 256);
                    black_box(&buffer);
                }
            }),
        ),
        (
            "get_rust",
            Box::new(move |n| {
                for i in 0..n {
                    assert_eq!(black_box(map.get(&keys[i % KEYS]).unwrap().unwrap()).len(), 256);
                }
            }),
        ),
        (
            "get_into_rust",
            Box::new(move |n| {
                let mut buffer = [0_u8; 1024];
                for i in 0..n {
                    assert_eq!(map.get_into(&keys[i % KEYS], &mut buffer).unwrap(), Some(256));
                    black_box(&buffer);
                }
            }),
        ),
        (
            "put_c",
            Box::new(move |n| {
                for i in 0..n {
                    let (key, size) = c(&keys[i % KEYS]);
                    // SAFETY: key and value have these sizes.
                    let r = unsafe {
                        sys::tslab_map_put(raw, key, size, VALUE.as_ptr().cast(), 256, sys::TSLAB_EPOCH_CURRENT)
                    };
                    assert_eq!(r, 0);
                }
            }),
        ),
        ("put_rust", Box::new(move |n| (0..n).for_each(|i| map.put(&keys[i % KEYS], &VALUE).unwrap()))),
        (
            "add_rust",
            Box::new(move |n| {
                let mut counter = map.counter("hits");
                (0..n).for_each(|_| drop(black_box(counter.add(1))));
            }),
        ),
    ]
}

fn objects<'a>(pool: &'a Pool) -> Vec<Contender<'a>> {
    let raw = pool.raw();
    vec![
        (
            "alloc_free_c",
            Box::new(move |n| {
                for _ in 0..n {
                    let mut handle = 0;
                    // SAFETY: the pool is open.
                    unsafe {
                        assert_eq!(sys::tslab_alloc(raw, 128, sys::TSLAB_EPOCH_CURRENT, &mut handle, ptr::null_mut()), 0);
                        assert_eq!(sys::tslab_free(raw, handle), 0);
                    }
                }
            }),
        ),
        (
            "alloc_free_rust",
            Box::new(move |n| (0..n).for_each(|_| pool.free(pool.alloc_in(128, Epoch::CURRENT).unwrap()).unwrap())),
        ),
    ]
}

#[cfg(feature = "peers")]
fn peers<'a>(cache: &'a moka::sync::Cache<[u8; 16], Vec<u8>>, keys: &'a [[u8; 16]]) -> Vec<Contender<'a>> {
    vec![
        ("put_moka", Box::new(move |n| (0..n).for_each(|i| cache.insert(keys[i % KEYS], VALUE.to_vec())))),
        ("get_moka", Box::new(move |n| (0..n).for_each(|i| assert_eq!(cache.get(&keys[i % KEYS]).unwrap().len(), 256)))),
    ]
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (pool, n) = (Pool::open(&arguments[1]).unwrap(), arguments[2].parse::<usize>().unwrap());
    let (map, keys) = (pool.map("bench").unwrap(), keys());
    for key in &keys {
        map.put(key, &VALUE).unwrap();
    }
    #[cfg(feature = "peers")]
    let moka = moka::sync::Cache::new(100_000);
    let mut contenders = objects(&pool);
    contenders.extend(maps(&map, &keys));
    #[cfg(feature = "peers")]
    contenders.extend(peers(&moka, &keys));
    let mut times = vec![Vec::new(); contenders.len()];
    for _ in 0..RUNS {
        for ((_, run), times) in contenders.iter().zip(&mut times) {
            run(n / 10);
            let begin = Instant::now();
            run(n);
            times.push(begin.elapsed().as_nanos() as f64 / n as f64);
        }
    }
    let medians = contenders.iter().zip(&mut times).map(|((name, _), times)| {
        times.sort_by(f64::total_cmp);
        format!("\"{name}\": {:.1}", times[RUNS / 2])
    });
    println!("{{{}}}", medians.collect::<Vec<_>>().join(", "));
}

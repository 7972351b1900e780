//! The features that need other crates: waits by tokio, and values by serde.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tslab::{Cache, Cbor, Claiming, Json, Lock, Map, Pool, Put, Value, Version, CLAIM_TIME};

const LONG: Duration = Duration::from_secs(600);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn mine(map: &Map, key: &str) -> tslab::Claim {
    match map.claim(key, LONG).unwrap() {
        Claiming::Mine(claim) => claim,
        other => panic!("{other:?}"),
    }
}

fn n_threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Any number of waits takes two threads, in one runtime after the other.
fn waits(pool: &Pool) {
    let map = pool.map("waits").unwrap();
    for _ in 0..2 {
        let claim = mine(&map, "k");
        let version = claim.version();
        runtime().block_on(async {
            assert!(!map.wait_async("k", version, Duration::from_millis(1)).await.unwrap());
            assert!(map.wait_async("absent", Version::ABSENT, LONG).await.unwrap());
            let before = n_threads();
            let tasks: Vec<_> = (0..10_000)
                .map(|_| {
                    let map = map.clone();
                    tokio::spawn(async move { map.wait_async("k", version, LONG).await.unwrap() })
                })
                .collect();
            // Tasks that are dropped while they wait.
            let dropped: Vec<_> = (0..1000)
                .map(|_| {
                    let map = map.clone();
                    tokio::spawn(async move { map.wait_async("k", version, LONG).await })
                })
                .collect();
            tokio::time::sleep(Duration::from_millis(20)).await;
            dropped.iter().for_each(|task| task.abort());
            assert!(n_threads() <= before + 1, "{before} threads before, {} now", n_threads());
            assert!(claim.fulfil("value", Put::new()).unwrap());
            for task in tasks {
                assert!(task.await.unwrap());
            }
        });
        map.delete("k").unwrap();
    }
    // A future that is forgotten leaves its map open, as the library waits on it.
    let other = pool.map("forgotten").unwrap();
    let claim = mine(&other, "k");
    let key = other.clone();
    runtime().block_on(async {
        let mut future = Box::pin(async move { other.wait_async("k", Version::ABSENT, LONG).await });
        std::future::poll_fn(|context| {
            assert!(future.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        std::mem::forget(future);
    });
    assert!(claim.give_up().unwrap() && key.get("k").unwrap().is_none());
    // The runtime ends under a wait in another thread.
    let held = mine(&map, "k");
    let first = runtime();
    first.block_on(async { map.wait_async("none", Version::ABSENT, LONG).await.unwrap() });
    let (same, version) = (map.clone(), held.version());
    let waiter = std::thread::spawn(move || runtime().block_on(same.wait_async("k", version, LONG)));
    std::thread::sleep(Duration::from_millis(20));
    drop(first);
    match waiter.join().unwrap() {
        Err(error) => assert!(error.to_string().contains("runtime"), "{error}"),
        Ok(_) => assert!(held.give_up().is_ok()), // it began afterwards
    }
}

fn once(pool: &Pool) {
    let cache: Cache<str, String> = Cache::new(pool, "once").unwrap();
    let n = Arc::new(AtomicU32::new(0));
    let many = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    many.block_on(async {
        // The first is dropped in its computation: the next one computes.
        let dropped = tokio::spawn({
            let cache = cache.clone();
            async move { cache.get_or_compute_async("k", std::future::pending()).await }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let (cache, n) = (cache.clone(), n.clone());
                tokio::spawn(async move {
                    let compute = async {
                        n.fetch_add(1, SeqCst);
                        tokio::time::sleep(Duration::from_millis(20)).await;
                        "value".to_string()
                    };
                    cache.get_or_compute_async("k", compute).await.unwrap()
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(20)).await;
        dropped.abort();
        for task in tasks {
            assert_eq!(task.await.unwrap(), "value");
        }
    });
    assert_eq!(n.load(SeqCst), 1);
}

fn locks(pool: &Pool) {
    let map = pool.map("locks").unwrap();
    let counter = map.counter("in turn");
    runtime().block_on(async {
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let (map, mut counter) = (map.clone(), counter.clone());
                tokio::spawn(async move {
                    let held = Lock::new(&map, "turn").acquire_async(LONG).await.unwrap().unwrap();
                    assert_eq!(counter.add(1).unwrap(), 1);
                    tokio::task::yield_now().await;
                    assert_eq!(counter.add(-1).unwrap(), 0);
                    assert!(held.release().unwrap());
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let held = Lock::new(&map, "turn").acquire().unwrap();
        assert!(Lock::new(&map, "turn").acquire_async(Duration::from_millis(1)).await.unwrap().is_none());
        drop(held);
    });
    assert!(CLAIM_TIME > Duration::ZERO);
}

type Session = BTreeMap<String, (u32, Option<String>, Vec<i64>)>;

fn values(pool: &Pool) {
    let session: Session = [("größe".to_string(), (7, Some("x".into()), vec![-1, i64::MAX]))].into();
    let cbor: Cache<str, Cbor<Session>> = Cache::new(pool, "values").unwrap();
    let json: Cache<str, Json<Session>> = Cache::new(pool, "values").unwrap();
    cbor.set("cbor", &Cbor(session.clone())).unwrap();
    json.set("json", &Json(session.clone())).unwrap();
    for key in ["cbor", "json"] {
        assert_eq!(*cbor.get(key).unwrap().unwrap(), session, "{key}");
        assert_eq!(*json.get(key).unwrap().unwrap(), session, "{key}");
    }
    let bytes = cbor.map().get("json").unwrap().unwrap();
    assert!(bytes.starts_with(b"\xd9\xd9\xf7\xd9\x01\x06\x78"), "{bytes:02x?}");
    let values: Cache<str, Value> = Cache::new(pool, "values").unwrap();
    assert_eq!(values.get("cbor").unwrap().unwrap()["größe"], values.get("json").unwrap().unwrap()["größe"]);
    // What has another form counts as absent; text, bytes and counters are values, too.
    cbor.map().put("text", "text").unwrap();
    cbor.map().add("counter", -5).unwrap();
    assert!(cbor.get("text").unwrap().is_none());
    let texts: Cache<str, Json<String>> = Cache::new(pool, "values").unwrap();
    assert_eq!(texts.get("text").unwrap().unwrap().0, "text");
    let numbers: Cache<str, Cbor<i32>> = Cache::new(pool, "values").unwrap();
    assert_eq!(numbers.get("counter").unwrap(), Some(Cbor(-5)));
}

pub fn run(socket: &str) {
    let pool = Pool::open(socket).unwrap();
    waits(&pool);
    once(&pool);
    locks(&pool);
    values(&pool);
}

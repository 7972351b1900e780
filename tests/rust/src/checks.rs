//! Calls on a real daemon, also in forked children and in threads that end.

use std::os::raw::c_int;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use tslab::{
    plain, Cache, Claiming, Close, Counter, Cursor, Epoch, EpochState, Error, Evict, Handle, Limiter, Lock, MapOptions,
    Options, Pool, Put, Ttl, Value, Version, CLAIM_TIME,
};

extern "C" {
    fn fork() -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
}

/// Runs a function in a forked child, which must succeed. The function owns what it captured: it drops that in the child.
fn in_child(body: impl FnOnce()) {
    // SAFETY: this program has one thread where it forks.
    unsafe {
        let pid = fork();
        if pid == 0 {
            let is_well = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_ok();
            _exit(i32::from(!is_well));
        }
        let mut status = -1;
        assert_eq!(waitpid(pid, &mut status, 0), pid);
        assert_eq!(status, 0, "the child failed");
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within a minute");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The objects of a check are in an epoch of its own: a count of the pool has those of other checks too.
struct Objects<'a> {
    pool: &'a Pool,
    epoch: Epoch,
}

impl<'a> Objects<'a> {
    fn new(pool: &'a Pool, label: &str) -> Self {
        Self { pool, epoch: pool.epoch_reserve(label).unwrap() }
    }

    /// While the daemon repairs what a thread or process that ended has left, what was cached there counts as live.
    fn expect_none(&self) {
        until("no object is live", || self.pool.epoch_stats(self.epoch).unwrap().live_objects == 0);
    }
}

/// Gets after gets of other sizes, by which the library guesses; and of keys that are absent.
fn sizes(pool: &Pool) {
    let map = pool.map("values of sizes").unwrap();
    let values: Vec<Vec<u8>> = [0, 1, 255, 256, 257, 1024, 1025, 70_000]
        .iter()
        .map(|&size| (0..size).map(|i| (i % 251) as u8).collect())
        .collect();
    for (i, value) in values.iter().enumerate() {
        map.put(i.to_string().as_str(), value).unwrap();
    }
    let expect = |i: usize| {
        let value = map.get(i.to_string().as_str()).unwrap().unwrap();
        assert_eq!(value, values[i]);
        assert!(value.capacity() <= value.len().max(256) + 1, "{} bytes in {}", value.len(), value.capacity());
    };
    for i in 0..values.len() {
        for j in 0..values.len() {
            (0..3).for_each(|_| expect(i));
            expect(j);
            (0..3).for_each(|_| expect(i));
            assert_eq!(map.get("absent").unwrap(), None);
            expect(j);
        }
    }
}

fn maps(pool: &Pool) {
    let map = pool.map("maps").unwrap();
    map.put(b"a", b"1").unwrap();
    let (value, first) = map.get_version(b"a").unwrap().unwrap();
    assert_eq!(value, b"1");
    assert!(map.replace(b"a", first, b"2", Put::new()).unwrap());
    assert!(!map.replace(b"a", first, b"3", Put::new()).unwrap());
    assert!(!map.insert("a", "4", Put::new()).unwrap() && map.update("a", "5", Put::new()).unwrap());
    assert!(!map.delete_version("a", first).unwrap() && map.contains_key("a").unwrap());
    assert_eq!(map.take("a").unwrap().as_deref(), Some(&b"5"[..]));
    assert_eq!((map.take("a").unwrap(), map.get("a").unwrap()), (None, None));
    assert!(!map.update("a", "6", Put::new()).unwrap() && !map.touch("a", Ttl::Endless).unwrap());

    // Values around the sizes of rooms, and the largest.
    for size in [0, 1, 511, 512, 513, 1023, 1024, 1025, 4096, 8191, 8192, 100_000, map.size_max()] {
        let value: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
        map.put("size", &value).unwrap();
        assert_eq!(map.get("size").unwrap().as_ref(), Some(&value), "{size}");
        assert_eq!(map.get_many(&["absent", "size"]).unwrap(), [None, Some(value.clone())]);
        let (key, entry) = map.step(&mut Cursor::default()).unwrap().unwrap();
        assert_eq!((key, &entry.value), (b"size".to_vec(), &value));
        let mut part = [0; 7];
        let n = map.read(entry.version, size / 2, &mut part).unwrap();
        assert_eq!(part[..n], value[size / 2..size.min(size / 2 + 7)]);
        let mut room = vec![0; size];
        assert_eq!(map.get_into("size", &mut room).unwrap(), Some(size));
        assert_eq!(map.take("size").unwrap().as_ref(), Some(&value));
        if size > 0 {
            map.put("size", &value).unwrap();
            room.pop();
            assert_eq!(map.get_into("size", &mut room).unwrap_err().errno(), 90);
            map.delete("size").unwrap();
        }
    }
    let value = vec![0; map.size_max() + 1];
    assert!(matches!(map.put("size", &value), Err(Error::TooLarge)));
    assert!(matches!(map.get(&vec![0; 5000]), Ok(None)));

    let entries: Vec<_> = (0..500).map(|i| (format!("key {i}"), format!("value {i}"))).collect();
    assert!(map.put_many(&entries, Put::new()).unwrap().iter().all(Result::is_ok));
    let keys: Vec<_> = entries.iter().map(|(key, _)| key).collect();
    let values = map.get_many(&keys).unwrap();
    assert!(values.iter().zip(&entries).all(|(value, entry)| value.as_deref() == Some(entry.1.as_bytes())));
    let mut walked: Vec<_> = map.iter().map(|item| item.unwrap().0).collect();
    walked.sort();
    let mut expected: Vec<_> = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
    expected.sort();
    assert_eq!(walked, expected);
    // A cursor is kept as numbers.
    let mut cursor = Cursor::default();
    let mut n = 0;
    while map.step(&mut cursor).unwrap().is_some() {
        cursor = Cursor::from_raw(cursor.raw());
        n += 1;
    }
    assert_eq!((n, map.count().unwrap()), (500, 500));
    assert_eq!(map.clear().unwrap(), 500);
    assert!(map.stats().unwrap().inserts >= 500);

    for name in ["", "with\0zero", "x\n", &"x".repeat(44)] {
        assert!(matches!(pool.map(name), Err(Error::Invalid)), "{name:?}");
    }
    assert!(matches!(pool.map_with("none", &MapOptions::new().existing()), Err(Error::NotFound)));
    assert!(matches!(pool.map_with("maps", &MapOptions::new().exclusive()), Err(Error::Exists)));
}

fn tags(pool: &Pool) {
    let map = pool.map("tags").unwrap();
    let (shoes, hats) = (map.tag("shoes").unwrap(), map.tag("hats").unwrap());
    map.put_with("both", "v", Put::new().tag(shoes).tag(hats)).unwrap();
    map.put_with("hats", "v", Put::new().tag(hats)).unwrap();
    map.put("none", "v").unwrap();
    assert!(map.invalidate("shoes").unwrap() && !map.invalidate("absent").unwrap());
    assert_eq!((map.get("both").unwrap(), map.get("hats").unwrap().is_some()), (None, true));
    // A value that was computed before the invalidation does not come in after it.
    map.put_with("late", "v", Put::new().tag(shoes)).unwrap();
    assert_eq!(map.get("late").unwrap(), None);
    assert!(map.put_many(&[("a", "v"), ("b", "v")], Put::new().tag(hats)).unwrap().iter().all(Result::is_ok));
    assert!(map.contains_key("b").unwrap() && map.invalidate("hats").unwrap() && !map.contains_key("b").unwrap());
    let many = (0..5).fold(Put::new(), |put, _| put.tag(hats));
    assert!(matches!(map.put_with("many", "v", many), Err(Error::Invalid)));
    assert!(map.contains_key("none").unwrap());
}

fn lifetimes(pool: &Pool) {
    let options = MapOptions::new().stale(Duration::from_secs(600)).ttl(Duration::from_secs(500));
    let map = pool.map_with("lifetimes", &options).unwrap();
    map.put("k", "v").unwrap();
    assert!(map.ttl("k").unwrap().unwrap().unwrap() > Duration::from_secs(400));
    assert!(map.touch("k", Ttl::Endless).unwrap());
    let touched = map.get_touch("k", Duration::from_secs(5000)).unwrap().unwrap();
    assert_eq!((&touched.value[..], map.get_touch("absent", Ttl::Map).unwrap().is_none()), (&b"v"[..], true));
    assert!(map.ttl("k").unwrap().unwrap().unwrap() > Duration::from_secs(4000));
    assert!(map.touch("k", Ttl::Endless).unwrap());
    assert_eq!((map.ttl("k").unwrap(), map.ttl("absent").unwrap()), (Some(None), None));
    map.put_with("k", "v", Put::new().ttl(Duration::from_millis(1))).unwrap();
    until("the value ends", || map.get("k").unwrap().is_none());
    let stale = map.get_stale("k").unwrap().unwrap();
    assert!(stale.is_stale && stale.value == b"v" && stale.version == Version::ABSENT);
    for ttl in [Duration::ZERO, Duration::from_secs(315_576_001)] {
        assert!(matches!(map.put_with("k", "v", Put::new().ttl(ttl)), Err(Error::Invalid)), "{ttl:?}");
    }
}

fn counters(pool: &Pool) {
    let map = pool.map("counters").unwrap();
    let mut hits: Counter = map.counter("hits");
    assert_eq!((hits.get().unwrap(), hits.add(5).unwrap(), hits.add(-2).unwrap()), (0, 5, 3));
    map.delete("hits").unwrap();
    assert_eq!((hits.add(1).unwrap(), hits.get().unwrap()), (1, 1)); // it began anew
    assert_eq!(map.add_with("from", 1, 100, Ttl::Endless).unwrap(), 101);
    map.put("text", "text").unwrap();
    assert!(matches!(map.add("text", 1), Err(Error::Invalid)));
    assert!(matches!(map.counter("text").get(), Err(Error::Invalid)));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let mut counter = map.counter("all");
            thread::spawn(move || (0..10_000).for_each(|_| assert!(counter.add(1).unwrap() > 0)))
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(map.counter("all").get().unwrap(), 40_000);

    let limiter = Limiter::new(pool, "limits", 0.001, 3).unwrap();
    assert_eq!(limiter.take("k", 3).unwrap(), None);
    assert!(limiter.take("k", 2).unwrap().unwrap() > Duration::from_secs(1000));
    assert!(!limiter.allow("k").unwrap() && limiter.allow("other").unwrap());
    assert!(matches!(limiter.take("k", 4), Err(Error::Invalid)));
}

fn claims(pool: &Pool) {
    let map = pool.map("claims").unwrap();
    let claim = match map.claim("k", CLAIM_TIME).unwrap() {
        Claiming::Mine(claim) => claim,
        other => panic!("{other:?}"),
    };
    assert!(matches!(map.claim("k", CLAIM_TIME).unwrap(), Claiming::Other(other) if other == claim.version()));
    assert!(matches!(map.wait("k", claim.version(), Duration::from_secs(60)), Err(Error::Deadlock)));
    assert!(!map.wait("k", claim.version(), Duration::ZERO).unwrap());
    // A child that drops its copy of the claim leaves the parent's.
    let (same, version) = (map.clone(), claim.version());
    let claim = std::cell::Cell::new(Some(claim));
    let stands = || matches!(same.claim("k", CLAIM_TIME).unwrap(), Claiming::Other(other) if other == version);
    in_child(|| {
        drop(claim.take());
        assert!(stands());
    });
    // Nor can it fulfil it, extend it or give it up, and it waits as others do.
    in_child(|| {
        let mut copy = claim.take().unwrap();
        assert!(matches!(copy.extend(CLAIM_TIME), Err(Error::Changed)));
        assert!(matches!(copy.fulfil("of the child", Put::new()), Err(Error::Changed)) && stands());
        assert!(!same.wait("k", version, Duration::from_millis(1)).unwrap());
    });
    in_child(|| assert!(matches!(claim.take().unwrap().give_up(), Err(Error::Changed)) && stands()));
    let claim = claim.take().unwrap();
    let waiter = thread::spawn({
        let map = map.clone();
        move || map.wait("k", version, Duration::from_secs(60)).unwrap()
    });
    assert!(claim.fulfil("value", Put::new()).unwrap());
    assert!(waiter.join().unwrap());
    assert!(matches!(map.claim("k", CLAIM_TIME).unwrap(), Claiming::HasValue));
    map.delete("k").unwrap();

    let lock = Lock::new(&map, "lock");
    let mut held = lock.acquire().unwrap();
    assert!(matches!(lock.acquire(), Err(Error::Deadlock)));
    assert!(lock.try_acquire().unwrap().is_none() && held.extend().unwrap());
    let held = std::cell::Cell::new(Some(held));
    in_child(|| {
        drop(held.take());
        assert!(Lock::new(&map, "lock").try_acquire().unwrap().is_none());
    });
    in_child(|| {
        let mut copy = held.take().unwrap();
        assert!(matches!(copy.extend(), Err(Error::Changed)) && matches!(copy.release(), Err(Error::Changed)));
        assert!(lock.acquire_timeout(Duration::from_millis(1)).unwrap().is_none());
    });
    assert!(held.take().unwrap().release().unwrap());
    let held = lock.acquire().unwrap();
    map.clear().unwrap();
    assert!(!held.release().unwrap(), "a lock that was lost");
    // The owner is a process that ends.
    in_child(|| std::mem::forget(lock.acquire().unwrap()));
    assert!(lock.acquire_timeout(Duration::from_secs(60)).unwrap().is_some());
    let short = Lock::new(&map, "short").time(Duration::from_millis(1));
    std::mem::forget(short.acquire().unwrap());
    until("its time is over", || short.try_acquire().unwrap().is_some());
    map.put("value", "value").unwrap();
    assert!(matches!(Lock::new(&map, "value").acquire(), Err(Error::Exists)));
}

fn tagged(texts: &Cache<str, String>) {
    let shoes = texts.tagged(&["shoes", "hats"]).unwrap();
    shoes.set("list", &"a".into()).unwrap();
    assert!(shoes.add("more", &"b".into()).unwrap() && texts.replace("more", &"c".into()).unwrap());
    assert!(texts.invalidate("hats").unwrap() && !texts.invalidate("nobody").unwrap());
    assert_eq!((texts.get("list").unwrap(), texts.get("more").unwrap().as_deref()), (None, Some("c")));
    // A value that is computed from what was there before the invalidation is never found after it.
    let old = shoes.get_or_compute("list", || texts.invalidate("shoes").map(|_| "old".into()).unwrap());
    assert_eq!((old.unwrap().as_str(), texts.get("list").unwrap()), ("old", None));
    assert_eq!(shoes.get_or_compute("list", || "new".into()).unwrap(), "new");
    assert_eq!(texts.get("list").unwrap().as_deref(), Some("new"));
    // A tag that the pool does not take: the value is computed, and not kept.
    let long = texts.tagged(&[[0_u8; 5000]]).unwrap();
    assert_eq!(long.get_or_compute("long", || "value".into()).unwrap(), "value");
    assert_eq!(texts.get_or_compute("long", || "other".into()).unwrap(), "other");
    assert!(matches!(texts.tagged(&["t"; 5]), Err(Error::Invalid)));
}

fn caches(pool: &Pool) {
    let texts: Cache<str, String> = Cache::new(pool, "texts").unwrap();
    let threads: Vec<_> = (0..8)
        .map(|i| {
            let texts = texts.clone();
            thread::spawn(move || {
                texts
                    .get_or_compute("k", || {
                        thread::sleep(Duration::from_millis(50));
                        format!("of thread {i}")
                    })
                    .unwrap()
            })
        })
        .collect();
    let values: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
    // A panic, and an error, let the next one compute.
    let result = thread::spawn({
        let texts = texts.clone();
        move || texts.get_or_compute("panics", || panic!("as it should"))
    });
    assert!(result.join().is_err());
    assert_eq!(texts.get_or_try_compute("panics", || Err("as it should")).unwrap(), Err("as it should"));
    assert_eq!(texts.get_or_compute("panics", || "value".into()).unwrap(), "value");
    let within = texts.get_or_try_compute("within", || texts.get_or_compute("within", String::new));
    assert!(matches!(within, Ok(Err(Error::Deadlock))));
    assert!(texts.pop("k").unwrap().is_some() && texts.pop("k").unwrap().is_none());
    // Bytes that are no text are no value, and give way.
    texts.map().put("k", b"\xff\xfe").unwrap();
    assert_eq!(texts.get("k").unwrap(), None);
    assert_eq!(texts.get_or_compute("k", || "text".into()).unwrap(), "text");
    assert_eq!(texts.get("k").unwrap().as_deref(), Some("text"));
    assert!(!texts.add("k", &"x".into()).unwrap() && texts.replace("k", &"y".into()).unwrap());
    assert!(texts.delete("k").unwrap() && !texts.touch("k").unwrap() && !texts.contains_key("k").unwrap());

    let numbers: Cache<[u8], i64> = Cache::new(pool, "numbers").unwrap();
    numbers.set(b"n", &-5).unwrap();
    assert_eq!((numbers.get(b"n").unwrap(), numbers.incr(b"c", 7).unwrap()), (Some(-5), 7));
    assert_eq!(numbers.get(b"c").unwrap(), Some(7));
    assert!(numbers.clear().unwrap() >= 2);
    let values: Cache<str, Value> = Cache::new(pool, "values").unwrap();
    let value = Value::map([("list", vec![1.into(), Value::Null, 0.5.into(), true.into()].into())]);
    values.set("v", &value).unwrap();
    assert_eq!(values.get("v").unwrap(), Some(value));

    tagged(&texts);
    computation_forks(&texts);

    // A stale value, while another computes.
    let options = MapOptions::new().stale(Duration::from_secs(600));
    let stale: Cache<str, String> = Cache::with(pool, "stale", &options).unwrap().ttl(Duration::from_millis(1));
    stale.set("k", &"old".into()).unwrap();
    until("the value ends", || stale.get("k").unwrap().is_none());
    let computed = stale.get_or_compute("k", || stale.get_or_compute("k", || panic!("twice")).unwrap() + " and new");
    assert_eq!(computed.unwrap(), "old and new");
    // A value that the map does not take is returned all the same.
    let options = MapOptions::new().value_max(100);
    let small: Cache<str, Vec<u8>> = Cache::with(pool, "small", &options).unwrap();
    assert_eq!(small.get_or_compute("k", || vec![7; 1000]).unwrap(), [7; 1000]);
    assert_eq!(small.get("k").unwrap(), None);
}

/// The claim stays the parent's, whether its child computes to the end or panics.
fn computation_forks(texts: &Cache<str, String>) {
    let parent = std::process::id();
    for name in ["forks", "forks and panics"] {
        let computed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            texts.get_or_compute(name, || {
                // SAFETY: this program has one thread here.
                let pid = unsafe { fork() };
                if pid == 0 {
                    assert_eq!(name, "forks", "as it should");
                    return "of the child".into();
                }
                let mut status = -1;
                // SAFETY: the status is there.
                assert!(unsafe { waitpid(pid, &mut status, 0) } == pid && status == 0);
                assert_eq!(texts.get(name).unwrap(), None);
                "of the parent".into()
            })
        }));
        if std::process::id() != parent {
            // SAFETY: the parent goes on with the test.
            unsafe { _exit(0) };
        }
        assert_eq!(computed.unwrap().unwrap(), "of the parent");
        assert_eq!(texts.get(name).unwrap().as_deref(), Some("of the parent"));
    }
}

plain! {
    #[derive(Debug, PartialEq)]
    struct Point {
        x: f64,
        y: f64,
        name: [u8; 16],
    }
}

fn objects(pool: &Pool) {
    let objects = Objects::new(pool, "objects");
    let epoch = objects.epoch;
    let point = Point { x: 1.5, y: -2.5, name: *b"0123456789abcdef" };
    let handle = pool.make_in(&point, epoch).unwrap();
    assert_eq!(pool.load(handle).unwrap(), point);
    assert_eq!(pool.load(Handle::<Point>::from_raw(handle.raw()).unwrap()).unwrap(), point);
    assert!(matches!(pool.load(handle.cast::<[u64; 512]>()), Err(Error::Invalid)));
    pool.root_set("point", None, Some(handle)).unwrap();
    assert!(matches!(pool.root_set("point", None, Some(handle)), Err(Error::Changed)));
    assert_eq!(pool.root_get::<Point>("point").unwrap(), Some(handle));
    assert_eq!(pool.root_get::<Point>("none").unwrap(), None);
    pool.root_set("point", Some(handle), None).unwrap();
    in_child(|| assert_eq!(pool.load(handle).unwrap(), point));
    in_child(|| pool.free(handle).unwrap());
    assert!(matches!(pool.free(handle), Err(Error::Stale)));
    assert!(matches!(pool.load(handle), Err(Error::Stale)));
    for number in [1, 77, u64::MAX, handle.raw() ^ 1] {
        assert!(matches!(pool.read(Handle::<[u8]>::from_raw(number).unwrap()), Err(Error::Stale)));
    }

    // Every offset and length of a write.
    for offset in 0..20 {
        for size in 0..20 {
            let mut pending = pool.pending(40, epoch).unwrap();
            pending.write(0, &[1; 40]);
            pending.write(offset, &vec![2; size]);
            let handle = pending.publish().unwrap();
            let bytes = pool.read(handle).unwrap();
            let expected = |i| if (offset..offset + size).contains(&i) { 2 } else { 1 };
            assert!((0..40).all(|i| bytes[i] == expected(i)), "{size} bytes at {offset}");
            pool.free(handle).unwrap();
        }
    }
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        pool.pending(40, epoch).unwrap().write(30, &[0; 11]);
    }))
    .is_err());

    let handles = pool.alloc_batch(64, 100, epoch).unwrap();
    assert_eq!(handles.len(), 100);
    let object = pool.get(handles[0]).unwrap();
    let words = object.words().unwrap();
    assert_eq!(words.len() * 8, object.len());
    words[1].store(5, Relaxed);
    in_child(|| assert_eq!(pool.get(handles[0]).unwrap().words().unwrap()[1].fetch_add(2, Relaxed), 5));
    assert_eq!(object.load(1, Relaxed), 7);
    assert_eq!(pool.free_batch(&handles).unwrap(), 100);
    assert_eq!(pool.free_batch(&handles).unwrap(), 0);
    assert!(matches!(pool.alloc_in(pool.size_max() + 1, epoch), Err(Error::TooLarge)));
    assert!(matches!(pool.alloc_in(0, epoch), Err(Error::Invalid)));
    objects.expect_none();
    assert!(pool.capacity() > 0 && pool.class_stats(100).is_ok() && pool.thread_stats().unwrap().allocs > 0);
    pool.drain().unwrap();
}

fn pending(pool: &Pool) {
    let objects = Objects::new(pool, "pending");
    let epoch = objects.epoch;
    drop(pool.pending(100, epoch).unwrap());
    objects.expect_none();
    // A child that drops its copies leaves the parent's objects.
    let own = std::cell::Cell::new(Some(pool.pending(100, epoch).unwrap()));
    let shared = std::cell::Cell::new(Some(pool.pending(100, epoch).unwrap().share().unwrap()));
    in_child(|| {
        drop(own.take());
        drop(shared.take());
        pool.free(pool.put_in(b"of the child", epoch).unwrap()).unwrap();
    });
    in_child(|| assert!(matches!(own.take().unwrap().publish(), Err(Error::NotFound))));
    in_child(|| assert!(matches!(shared.take().unwrap().publish(), Err(Error::NotFound))));
    let handle = own.take().unwrap().publish().unwrap();
    let mut shared = shared.take().unwrap();
    let other = thread::spawn(move || {
        shared.write(0, b"by another thread");
        shared.publish().unwrap()
    });
    let other = other.join().unwrap();
    assert!(pool.read(other).unwrap().starts_with(b"by another thread"));
    pool.free(handle).unwrap();
    pool.free(other).unwrap();
    // Somebody frees it under its owner: that is an error of the program, and of nothing else.
    let pending = pool.pending(100, epoch).unwrap();
    pool.free(pending.handle()).unwrap();
    assert!(matches!(pending.publish(), Err(Error::NotFound)));
    let shared = pool.pending(100, epoch).unwrap().share().unwrap();
    drop(thread::spawn(move || drop(shared)).join());
    objects.expect_none();

    let many: Result<Vec<_>, _> = (0..65).map(|_| pool.pending(64, epoch)).collect();
    assert!(matches!(many, Err(Error::TooManyPending)));
    objects.expect_none();
}

/// Threads that end with objects that are pending, and inside of domains.
fn threads(pool: &Pool) {
    let objects = Objects::new(pool, "threads");
    let epoch = objects.epoch;
    for _ in 0..20 {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let pool = pool.clone();
                thread::spawn(move || {
                    std::mem::forget(pool.pending(200, epoch).unwrap());
                    let handle = pool.put_in(b"stays until it is freed", epoch).unwrap();
                    std::mem::forget(pool.domain(Epoch::CURRENT, false).unwrap().enter().unwrap());
                    handle
                })
            })
            .collect();
        for handle in threads.into_iter().map(|t| t.join().unwrap()) {
            pool.free(handle).unwrap();
        }
    }
    objects.expect_none();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let pool = pool.clone();
            thread::spawn(move || {
                for i in 0..20_000_u64 {
                    let handle = pool.make_in(&[i; 4], epoch).unwrap();
                    assert_eq!(pool.load(handle).unwrap(), [i; 4]);
                    pool.free(handle).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    objects.expect_none();
}

fn epochs(pool: &Pool) {
    let current = pool.epoch_current().unwrap();
    let (is_ours, next) = pool.epoch_advance_from(current).unwrap();
    assert!(is_ours && next != current);
    assert_eq!(pool.epoch_advance_from(current).unwrap(), (false, next));
    let info = pool.epoch_info(next).unwrap();
    assert!(info.is_current && info.state == EpochState::Open && info.closed.is_none());
    let epoch = pool.epoch_reserve("requests").unwrap();
    assert_eq!(pool.epoch_info(epoch).unwrap().label, "requests");
    pool.epoch_label(epoch, "others").unwrap();
    let handle = pool.put_in(b"in it", epoch).unwrap();
    assert_eq!(pool.epoch_stats(epoch).unwrap().live_objects, 1);
    pool.epoch_ref(epoch).unwrap();
    assert_eq!((pool.epoch_refs(epoch).unwrap(), pool.epoch_unref(epoch).unwrap()), (1, 0));
    assert!(matches!(pool.epoch_unref(epoch), Err(Error::NotFound)));
    pool.epoch_close(epoch, Close::Keep).unwrap();
    assert!(matches!(pool.alloc_in(10, epoch), Err(Error::EpochClosed)));
    assert!(pool.read(handle).unwrap().starts_with(b"in it"));
    pool.epoch_close(epoch, Close::Revoke).unwrap();
    assert!(matches!(pool.read(handle), Err(Error::Stale)));
    assert!(pool.epoch_lease("leased").is_ok());
    assert!(matches!(pool.epoch_reserve("a\0b"), Err(Error::Invalid)));

    // Guards that are dropped in the order of entering.
    let outer = pool.domain(pool.epoch_reserve("outer").unwrap(), true).unwrap();
    let inner = pool.domain(pool.epoch_reserve("inner").unwrap(), true).unwrap();
    let (inside_outer, inside_inner) = (outer.enter().unwrap(), inner.enter().unwrap());
    drop(inside_outer);
    assert!(pool.alloc_in(10, outer.epoch()).map(|h| pool.free(h)).is_ok());
    inside_inner.leave().unwrap();
    for domain in [&outer, &inner] {
        assert!(matches!(pool.alloc_in(10, domain.epoch()), Err(Error::EpochClosed)));
    }
    // A guard that is forgotten outlives its domain.
    let forgotten = pool.domain(Epoch::CURRENT, false).unwrap();
    std::mem::forget(forgotten.enter().unwrap());
    drop(forgotten);
    drop(pool.domain(Epoch::CURRENT, false).unwrap().enter().unwrap());
}

fn readers(pool: &Pool, socket: &str) {
    let map = pool.map("read").unwrap();
    map.put("k", "v").unwrap();
    let handle = pool.make(&[7_u64, 8]).unwrap();
    let reader = Options::new().reader(true).timeout(Duration::from_secs(60)).comm("reader").open(socket).unwrap();
    assert!(reader.is_reader());
    assert_eq!(reader.map("read").unwrap().get("k").unwrap().as_deref(), Some(&b"v"[..]));
    assert!(matches!(reader.map("read").unwrap().put("k", "w"), Err(Error::ReadOnly)));
    assert!(matches!(reader.put(b"x"), Err(Error::ReadOnly)));
    let object = reader.get(handle).unwrap();
    assert!(object.words().is_none());
    assert_eq!(object.load(1, Relaxed), 8);
    let cache: Cache<str, String> = Cache::new(&reader, "read").unwrap();
    assert_eq!(cache.get_or_compute("absent", || "computed".into()).unwrap(), "computed");
    pool.free(handle).unwrap();
}

fn errors(socket: &str) {
    let none = Pool::open("/nonexistent/default.sock").unwrap_err();
    assert!(matches!(&none, Error::NoDaemon(name) if &**name == "/nonexistent/default.sock"));
    assert_eq!(none.to_string(), "pool \"/nonexistent/default.sock\": there is no daemon");
    let none: std::io::Error = none.into();
    assert_eq!(none.kind(), std::io::ErrorKind::NotFound);
    assert!(matches!(Pool::open("a\0b"), Err(Error::Invalid)));
    assert!(matches!(Options::new().classes(&[64, 65]).create(), Err(Error::Invalid)));
    let pool = Options::new().arena_bytes(16 << 20).epochs(4).threads(8).classes(&[64, 4096]).create().unwrap();
    let map = pool.map_with("full", &MapOptions::new().limit_bytes(20000).evict(Evict::Never)).unwrap();
    let error = (0..1000).find_map(|i: u32| map.put(&i.to_ne_bytes(), &[0; 100]).err());
    assert!(matches!(error, Some(Error::NoSpace)));
    let handles: Vec<_> = std::iter::repeat_with(|| pool.alloc(4096)).take_while(Result::is_ok).collect();
    assert!(handles.len() > 1000 && matches!(pool.alloc(4096), Err(Error::NoMemory)));
    assert!(matches!(pool.reopen(), Err(Error::Invalid)) && pool.reap().is_ok());
    assert_eq!(pool.control_owner().unwrap(), None);
    // The pool outlives its last name.
    let map = Pool::open(socket).unwrap().map("errors").unwrap();
    map.put("k", "v").unwrap();
    assert_eq!(map.get("k").unwrap().as_deref(), Some(&b"v"[..]));
}

pub fn run(socket: &str) {
    std::panic::set_hook(Box::new(|info| {
        if !info.to_string().contains("as it should") {
            eprintln!("{info}");
        }
    }));
    let pool = Pool::open(socket).unwrap();
    let checks: [(&str, &dyn Fn()); 13] = [
        ("maps", &|| maps(&pool)),
        ("sizes", &|| sizes(&pool)),
        ("tags", &|| tags(&pool)),
        ("lifetimes", &|| lifetimes(&pool)),
        ("claims", &|| claims(&pool)),
        ("pending", &|| pending(&pool)),
        ("objects", &|| objects(&pool)),
        ("counters", &|| counters(&pool)),
        ("caches", &|| caches(&pool)),
        ("threads", &|| threads(&pool)),
        ("epochs", &|| epochs(&pool)),
        ("readers", &|| readers(&pool, socket)),
        ("errors", &|| errors(socket)),
    ];
    for (name, check) in checks {
        check();
        println!("{name}");
    }
}

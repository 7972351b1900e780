// <tslab.hpp>: owners, typed handles, containers in a pool.
#include <tslab.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <map>
#include <memory_resource>
#include <set>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <vector>

using tslab_cxx::handle;
using tslab_cxx::pool;

#define CHECK(condition)                                                                                     \
        do {                                                                                                 \
                if (!(condition)) {                                                                          \
                        std::fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                         \
                        std::exit(1);                                                                        \
                }                                                                                            \
        } while (0)

namespace {

struct Session {
        int user;
        long since;
};

struct Large {
        char bytes[5000];
};

struct Middle {
        char bytes[700];
};

struct Refused {
        explicit Refused(int) {
                throw 7;
        }
        long room[4];
};

tslab_options small() {
        tslab_options options{};

        options.size = sizeof(options);
        options.arena_bytes = 1 << 20;
        return options;
}

template <typename Call> int error_of(Call &&call, pool &p) {
        try {
                call(p);
        } catch (const std::system_error &e) {
                return e.code().value();
        }
        return 0;
}

/* The text of an error, as a program would log it. */
template <typename Call> std::string what_of(Call &&call) {
        try {
                call();
        } catch (const std::system_error &e) {
                return e.what();
        }
        return "";
}

void test_what() {
        using namespace std::chrono_literals;
        pool p = pool::create();
        tslab_map_options options{};

        options.size = sizeof(options);
        options.limit_bytes = 17;
        CHECK(what_of([] { (void) pool::open("No Name"); }) == "tslab_open of 'No Name': Invalid argument");
        CHECK(what_of([&] { tslab_cxx::map(p, "pages", &options); }) ==
              "tslab_map_open of 'pages': Invalid argument");
        options.limit_bytes = 150;
        tslab_cxx::map map(p, "pages", &options), other(p, "others");
        map.put("a", "b");
        CHECK(what_of([&] { map.put("c", "d"); }) == "tslab_map_put of 'pages': No space left on device");
        std::swap(map, other);
        tslab_cxx::map moved(std::move(other));
        CHECK(what_of([&] { moved.insert("c", "d"); }) ==
              "tslab_map_put_with of 'pages': No space left on device");
        CHECK(what_of([&] { moved.put("a", "b", -1ms); }) == "a lifetime of 'pages': Invalid argument");
        CHECK(what_of([&] { (void) p.get(handle<Session>(1)); }) == "tslab_get: Stale file handle");
        CHECK(what_of([&] { (void) p.root<Session>(""); }) == "tslab_root_get: Invalid argument");
}

/* In C, a NUL ends a name, which would then be that of another root or map. */
void test_names_with_a_nul() {
        const std::string name("it\0x", 4);
        pool p = pool::create();
        handle<Session> h = p.make<Session>();
        tslab_cxx::map map(p, "it");

        CHECK(p.set_root("it", {}, h));
        CHECK(what_of([&] { (void) p.root<Session>(name); }) ==
              "tslab_root_get of a name with a NUL: Invalid argument");
        CHECK(error_of([&](pool &q) { q.set_root(name, h, {}); }, p) == EINVAL);
        CHECK(error_of([&](pool &q) { tslab_cxx::map(q, name); }, p) == EINVAL);
        CHECK(p.root<Session>("it") == h);
}

void test_objects() {
        pool p = pool::create();
        handle<Session> h = p.make<Session>(7, 70), none;

        CHECK(h && !none && h != none && handle<Session>(h.raw()) == h);
        CHECK(p.get(h).user == 7 && p.get(h).since == 70);
        p.get(h).user = 8;
        CHECK(p.read(h)->user == 8 && p.find(h)->user == 8);
        CHECK(p.free(h) && !p.free(h));
        CHECK(!p.find(h) && !p.read(h) && !p.read(none));
        CHECK(error_of([](pool &q) { (void) q.get(handle<Session>(1)); }, p) == ESTALE);
        CHECK(error_of([](pool &q) { (void) q.make<Large>(); }, p) == E2BIG);

        /* a handle of another type */
        handle<Middle> other(p.make<Session>().raw());
        CHECK(!p.find(other) && !p.read(other));
        try {
                (void) p.get(other);
                CHECK(false);
        } catch (const tslab_cxx::error &e) {
                CHECK(e.code().value() == ESTALE);
        }
}

void test_construction_that_throws() {
        tslab_options options = small();
        pool p = pool::create(&options);

        for (int i = 0; i < 100000; i++)
                try {
                        (void) p.make<Refused>(1);
                        CHECK(false);
                } catch (int) {
                }
}

void test_full() {
        tslab_options options = small();
        pool p = pool::create(&options);
        std::vector<handle<Session>> all;

        try {
                for (;;)
                        all.push_back(p.make<Session>());
        } catch (const std::bad_alloc &) {
        }
        CHECK(all.size() == 256 * 64);
        for (auto h : all)
                CHECK(p.free(h));
}

void test_owners() {
        pool a = pool::create(), b = std::move(a);

        CHECK(!a.raw() && b.raw());
        a = std::move(b);
        CHECK(a.raw() && !b.raw());
        a.close();
        CHECK(!a.raw());
        CHECK(error_of([](pool &) { (void) pool::open("No Name"); }, a) == EINVAL);
}

void test_roots_and_epochs() {
        pool p = pool::create();
        uint32_t kept = p.reserve("kept"), first = p.epoch();
        handle<Session> h = p.make_in<Session>(kept, 1, 10), other = p.make<Session>(2, 20);

        CHECK(!p.root<Session>("it"));
        CHECK(p.set_root("it", {}, h) && !p.set_root("it", {}, h));
        if (fork() == 0)
                _exit(p.get(p.root<Session>("it")).user != 1);
        int status;
        wait(&status);
        CHECK(status == 0);
        CHECK(p.advance() != first && p.epoch() != first);
        CHECK(error_of([](pool &q) { (void) q.make_in<Session>(0); }, p) == ESHUTDOWN);
        p.close_epoch(first, true);
        CHECK(!p.find(other) && p.find(h));
}

void test_memory_resource() {
        pool p = pool::create();
        tslab_cxx::memory_resource memory(p, TSLAB_EPOCH_CURRENT, std::pmr::new_delete_resource()),
                another(p);
        std::pmr::unordered_map<int, std::pmr::string> map(&memory);
        std::pmr::vector<char> grows(&memory); /* from the pool, then beyond its memory */

        for (int i = 0; i < 5000; i++) {
                map.emplace(i, std::to_string(i) + " is a number that is not short");
                grows.push_back(static_cast<char>(i));
        }
        CHECK(map.at(77) == "77 is a number that is not short" && grows[4000] == static_cast<char>(4000));
        CHECK(memory == memory && !(memory == another));

        for (size_t size : { 0, 1, 16, 752, 753, 4096, 100000 })
                for (size_t alignment : { 1, 16, 64 }) {
                        void *block = memory.allocate(size, alignment);

                        CHECK(reinterpret_cast<uintptr_t>(block) % alignment == 0);
                        memset(block, 1, size);
                        memory.deallocate(block, size, alignment);
                }

        std::vector<std::thread> threads;
        for (int i = 0; i < 4; i++)
                threads.emplace_back([&memory] {
                        std::pmr::vector<std::pmr::string> strings(&memory);

                        for (int k = 0; k < 2000; k++)
                                strings.emplace_back("a string that needs memory of its own, and so a block");
                });
        for (auto &thread : threads)
                thread.join();
}

using Numbers = std::pmr::vector<int>;

/* A container whose memory is the pool's alone: a forked child reads, and changes, the one that its parent has. */
void test_shared_container() {
        pool p = pool::create();
        tslab_cxx::memory_resource memory(p);
        void *room = memory.allocate(sizeof(Numbers), alignof(Numbers));
        Numbers *numbers = new (room) Numbers(&memory);
        int status;

        for (int i = 0; i < 100; i++)
                numbers->push_back(i);
        if (fork() == 0) {
                (*numbers)[99] += (*numbers)[98];
                numbers->push_back(7);
                _exit(0);
        }
        wait(&status);
        CHECK(status == 0 && numbers->size() == 101 && (*numbers)[99] == 99 + 98 && numbers->back() == 7);
        numbers->~Numbers();
        memory.deallocate(room, sizeof(Numbers), alignof(Numbers));
}

/* An object without a place in the pool is refused, not put where other processes do not see it. */
void test_too_large_to_share() {
        pool p = pool::create();
        tslab_cxx::memory_resource memory(p);
        Numbers numbers(&memory);

        CHECK(tslab_size_max(p.raw()) == 4096);
        memory.deallocate(memory.allocate(4080, 16), 4080, 16);
        for (auto [size, alignment] : { std::pair<size_t, size_t>{ 5000, 16 }, { 64, 64 } })
                try {
                        (void) memory.allocate(size, alignment);
                        CHECK(false);
                } catch (const std::bad_alloc &e) {
                        std::string text = e.what(), expected = std::to_string(size) + " bytes, aligned to ";

                        CHECK(text.find(expected + std::to_string(alignment)) != std::string::npos);
                        CHECK(text.find("have 4080 bytes at most") != std::string::npos &&
                              text.back() == 's');
                }
        try {
                numbers.resize(5000);
                CHECK(false);
        } catch (const tslab_cxx::block_too_large &) {
                CHECK(numbers.empty());
        }
}

void test_advance_from() {
        pool p = pool::create();
        uint32_t first = p.epoch();
        auto [advanced, now] = p.advance_from(first);

        CHECK(advanced && now != first && p.epoch() == now);
        CHECK(p.advance_from(first) == std::make_pair(false, now));
        CHECK(error_of([](pool &q) { (void) q.advance_from(0); }, p) == EINVAL);
}

void test_map() {
        pool p = pool::create();
        tslab_map_options options{};
        std::string large(100000, 'x');
        using namespace std::chrono_literals;

        options.size = sizeof(options);
        options.stale_ms = 100000;
        options.value_max = 100000;
        tslab_cxx::map map(p, "m", &options), other = std::move(map);
        map = std::move(other);
        CHECK(!other.raw());
        other = tslab_cxx::map(p, "other");
        map.swap(other);
        other = std::move(
                map); /* the map that it was is closed now, not with `map`, which may outlive the pool */
        CHECK(!map.raw());
        map = tslab_cxx::map(p, "m");
        CHECK(map.size_max() == 100000 && !map.get("a") && !map.find("a"));
        map.put("a", "one");
        CHECK(map.get("a") == "one" && !map.find("a")->left && !map.find("a")->is_stale);
        CHECK(!map.insert("a", "two") && map.update("a", large) && !map.update("b", "two"));
        tslab_handle version = map.find("a")->version;
        CHECK(map.read(version, 99998, 10) == "xx" && map.read(version, 99998, std::string::npos) == "xx");
        CHECK(!map.read(0, 0, 1));
        CHECK(map.replace("a", version, "three", 60s) && !map.replace("a", version, "four"));
        CHECK(map.find("a")->left > 50s && map.find("a")->left <= 60s);
        CHECK(map.touch("a", tslab_cxx::map::no_end) && !map.find("a")->left && !map.touch("b", 1s));
        CHECK(map.get_touch("a", 60s)->value == "three" && map.find("a")->left <= 60s &&
              !map.get_touch("b", 1s));
        CHECK(!map.erase("a", version) && map.erase("a", map.find("a")->version) && !map.erase("a"));
        CHECK(map.add("n", 5) == 5 && map.add("n") == 6 && map.find("n")->is_counter);
        map.set_counter("n", 40);
        CHECK(map.add("n", 2) == 42);
        CHECK(map.add_at(map.find("n")->version, 2) == 44 && !map.add_at(map.find("n")->version + 2));
        CHECK(map.add("taken", 3) == 3 && map.take("taken")->is_counter && !map.take("taken"));
        map.put("taken", std::string(5000, 't'));
        CHECK(map.take("taken")->value == std::string(5000, 't') && !map.find("taken"));
        CHECK(!map.limit("l", 1, 1) && map.limit("l", 1, 1) <= 1s);
        int n = 0;
        map.for_each([&n](const std::string &, const tslab_cxx::map_entry &) { return ++n < 2; });
        CHECK(n == 2 && map.count() == 2 && map.statistics().entries == 2);
        CHECK(map.expire(p.epoch()) == 2 && map.count() == 0);
        map.put("a", "b");
        CHECK(map.claim("c")->is_ours && map.clear() == 1 && map.count() == 0 && map.claim("c")->is_ours);
        CHECK(error_of([](pool &q) { tslab_cxx::map(q, "m").put("a", "b", -1ms); }, p) == EINVAL);
        CHECK(error_of([](pool &q) { tslab_cxx::map(q, ""); }, p) == EINVAL);
}

struct Point {
        int x;
        double y;
};

void test_handles_in_containers() {
        pool p = pool::create();
        handle<Session> a = p.make<Session>(1, 0), b = p.make<Session>(2, 0);
        std::unordered_map<handle<Session>, int> numbers{ { a, 1 }, { b, 2 } };
        std::set<handle<Session>> all{ a, b, a };

        CHECK(numbers.at(a) == 1 && numbers.at(b) == 2 && numbers.count(handle<Session>()) == 0);
        CHECK(all.size() == 2 && (a < b) != (b < a) && (a <= b) == (b >= a) && !(a < a) && a >= a &&
              (a > b) == (b < a));
}

void test_map_of_types() {
        pool p = pool::create();
        tslab_cxx::map map(p, "m");

        CHECK(!map.contains("p") && !map.get_as<Point>("p"));
        map.put_as("p", Point{ 3, 4.5 });
        CHECK(map.contains("p") && map.get_as<Point>("p")->x == 3 && map.get_as<Point>("p")->y == 4.5);
        CHECK(map.update("p", tslab_cxx::bytes_of(Point{ 7, 1 })) && map.get_as<Point>("p")->x == 7);
        map.put("large", std::string(100000, 'x'));
        map.put("empty", "");
        CHECK(map.contains("large") && map.contains("empty"));
        for (const char *key : { "large", "empty" })
                CHECK(what_of([&] { (void) map.get_as<Point>(key); }) ==
                      "a value of another type of 'm': Invalid argument");
}

void test_map_lifetimes() {
        using namespace std::chrono_literals;
        pool p = pool::create();
        tslab_cxx::map map(p, "m");
        auto left = [&](tslab_cxx::span ttl) {
                map.put("a", "b", ttl);
                return map.find("a")->left;
        };

        CHECK(left(1.5h) > 5390s && left(1.5h) <= 5400s && !left({}) && !left(tslab_cxx::map::no_end));
        CHECK(left(std::chrono::duration<double>(100.5)) <= 100501ms && left(1h) > 3590s);
        CHECK(tslab_cxx::span(1us).ms() == 1 && tslab_cxx::span(0.0004ms).ms() == 1 &&
              tslab_cxx::span(4.035s).ms() == 4035);
        CHECK(tslab_cxx::span(std::chrono::hours::max()).wait().count() == UINT32_MAX &&
              tslab_cxx::span(std::chrono::seconds::min()).ms() == -1);
        for (double seconds : { -1.0, std::nan(""), HUGE_VAL, 1e300, 4e8 })
                CHECK(error_of([&](pool &) { map.put("a", "b", std::chrono::duration<double>(seconds)); },
                               p) == EINVAL);
        auto claim = map.claim("c");
        std::thread([&] { CHECK(!map.wait("c", *claim, 0.01s) && !map.wait("c", *claim, -1s)); }).join();
}

/* A child that is forked in a computation leaves the claim to its parent, however it goes on. */
void test_map_computation_forks() {
        pool p = pool::create();
        tslab_cxx::map map(p, "m");

        for (bool throws : { false, true }) {
                pid_t parent = getpid(), child = -1;
                std::string value;

                try {
                        value = map.get_or_compute(throws ? "thrown" : "returned", [&] {
                                child = fork();
                                if (child == 0 && throws)
                                        throw std::runtime_error("of the child");
                                if (child == 0)
                                        return std::string("of the child");
                                CHECK(waitpid(child, nullptr, 0) == child);
                                return std::string("of the parent");
                        });
                } catch (const std::runtime_error &) {
                        CHECK(child == 0);
                }
                if (getpid() != parent)
                        _exit(0);
                CHECK(value == "of the parent" && map.get(throws ? "thrown" : "returned") == value);
        }
}

void test_map_iteration() {
        pool p = pool::create();
        tslab_cxx::map map(p, "m");
        std::map<std::string, std::string> expected, found;

        CHECK(map.begin() == map.end());
        for (int i = 0; i < 200; i++)
                expected[std::to_string(i)] =
                        std::string(static_cast<size_t>(i * 100), 'x'); /* some take several objects */
        for (const auto &[key, value] : expected)
                map.put(key, value);
        for (const auto &[key, entry] : map)
                CHECK(found.emplace(key, entry.value).second);
        CHECK(found == expected);
        auto first = map.begin(), kept = first++;
        CHECK(kept != map.end() && kept->first != first->first && (*++kept).first == first->first);
        CHECK(std::distance(map.begin(), map.end()) == 200);
        CHECK(std::count_if(map.begin(), map.end(), [](const auto &e) { return e.second.value.empty(); }) ==
              1);
}

/* Questions of a near cache, whose cover this process gives. */
void test_near_cache() {
        using namespace std::chrono_literals;
        pool p = pool::create();
        tslab_cxx::near_cache opened(p), near = std::move(opened);
        const char *servers[] = { "server" };
        tslab_near_scope scope{};
        timespec now{};
        int n = 0;
        tslab_cxx::near_answer answer{ std::string(10000, 'x'), "server" };
        auto ask = [&](bool again) {
                n += again ? 100 : 1;
                return answer;
        };

        CHECK(near.get("a", ask) == answer.value && near.get("a", ask) == answer.value && n == 2);
        scope.size = sizeof(scope);
        scope.servers = servers;
        scope.n_servers = 1;
        CHECK(tslab_near_begin(near.raw(), &scope) == 0);
        clock_gettime(CLOCK_BOOTTIME, &now);
        CHECK(tslab_near_cover(near.raw(), static_cast<uint64_t>(now.tv_sec + 1000) * 1000000) == 0);
        for (int i = 0; i < 10; i++)
                CHECK(near.get("a", ask) == answer.value && n == 3);
        answer.value.reset();
        near.drop("a");
        for (int i = 0; i < 10; i++)
                CHECK(!near.get("a", ask) && n == 4);
        near.drop("a");
        try {
                near.get("a", [](bool) -> tslab_cxx::near_answer { throw 7; });
                CHECK(false);
        } catch (int) {
        }
        answer = { "old", "another" };
        CHECK(near.get("a", ask) == "old" && n == 105); /* it is asked anew, as nobody hears that server */
        answer = { "new", "server", 1000s };
        CHECK(near.get("a", ask) == "new" && near.get("a", ask) == "new" && n == 106);
        CHECK(what_of([&] { tslab_cxx::near_cache(p, ""); }) == "tslab_near_open: Invalid argument");
}

/* One value is damaged: all others are visited before the error. */
void test_map_damaged() {
        pool p = pool::create();
        tslab_cxx::map map(p, "m");
        void *leaf;
        int n = 0;

        for (char i = 'a'; i <= 't'; i++)
                map.put(std::string("00") + i, std::string(2100, i));
        CHECK(tslab_get(p.raw(), map.find("00h")->version, &leaf, nullptr) == 0);
        static_cast<char *>(leaf)[32 + 8 + 3] ^=
                0x20; /* behind head and key: the slab of the other piece is none */
        auto visit = [&n](const std::string &key, const tslab_cxx::map_entry &entry) {
                CHECK(key != "00h" && entry.value == std::string(2100, key[2]));
                return ++n < 100;
        };
        CHECK(error_of([&](pool &) { map.for_each(visit); }, p) == EUCLEAN && n == 19);
        map.put("00h", std::string(2100, 'h'));
        CHECK(map.erase("00h"));
        n = 0;
        map.for_each(visit);
        CHECK(n == 19);
}

void test_map_claims() {
        pool p = pool::create();
        tslab_map_options options{};
        using namespace std::chrono_literals;

        options.size = sizeof(options);
        options.stale_ms = 100000;
        tslab_cxx::map map(p, "m", &options);
        auto mine = map.claim("a"), again = map.claim("a");
        CHECK(mine && mine->is_ours && again && !again->is_ours && again->version == mine->version);
        CHECK(!map.wait("a", *mine, 0ms) && map.erase("a", mine->version) && map.wait("a", *mine, 1h));
        CHECK(map.get_or_compute(
                      "a", [] { return std::string("one"); }, 10ms) == "one" &&
              !map.erase("a", 1));
        std::this_thread::sleep_for(50ms);
        CHECK(!map.get("a") && map.find("a", true)->is_stale && map.find("a", true)->value == "one");
        mine = map.claim("a");
        CHECK(mine->is_ours && map.get_or_compute("a", [] { return std::string("not"); }) == "one");
        auto b = map.claim("b");
        std::thread waiter(
                [&map] { CHECK(map.get_or_compute("b", [] { return std::string("not"); }) == "two"); });
        std::this_thread::sleep_for(20ms);
        CHECK(map.replace("b", b->version, "two"));
        waiter.join();
        CHECK(map.erase("a", mine->version) && !map.claim("b"));
        try {
                map.get_or_compute("c", []() -> std::string { throw 7; });
                CHECK(false);
        } catch (int) {
                /* By another thread: one that waits for its own claim is told so. */
                std::thread([&map] { CHECK(map.claim("c")->is_ours); }).join();
        }
        CHECK(map.get_or_compute(
                      "c", [] { return std::string("alone"); }, 0ms, 10ms) == "alone");
        /* As nanoseconds, this would be a time to wait of a century. */
        CHECK(map.get_or_compute(
                      "c", [] { return std::string("alone"); }, 0ms,
                      std::chrono::milliseconds(INT64_C(-13835058055282))) == "alone");
        auto c = map.claim("c");
        CHECK(!c->is_ours);
        std::thread patient([&map] {
                CHECK(map.get_or_compute(
                              "c", [] { return std::string("not"); }, 0ms,
                              std::chrono::milliseconds::max()) == "two");
        });
        std::thread giver([&map, &c] {
                std::this_thread::sleep_for(20ms);
                CHECK(map.replace("c", c->version, "two"));
        });
        CHECK(map.wait("c", *c, std::chrono::milliseconds(INT64_C(1) << 32)));
        patient.join();
        giver.join();
}

/* A value that cannot be kept is computed all the same. */
void test_get_or_compute_in_full_map() {
        pool p = pool::create();
        tslab_map_options o{};
        o.size = sizeof(o);
        o.limit_bytes = 4096;
        tslab_cxx::map map(p, "full", &o);

        CHECK(error_of(
                      [&map](pool &) {
                              for (int i = 0;; i++)
                                      map.put(std::to_string(i), "value");
                      },
                      p) == ENOSPC);
        CHECK(map.get_or_compute("new", [] { return std::string("computed"); }) == "computed");
}

} // namespace

int main() {
        test_what();
        test_names_with_a_nul();
        test_objects();
        test_construction_that_throws();
        test_full();
        test_owners();
        test_roots_and_epochs();
        test_memory_resource();
        test_shared_container();
        test_too_large_to_share();
        test_advance_from();
        test_handles_in_containers();
        test_map();
        test_map_of_types();
        test_map_lifetimes();
        test_map_computation_forks();
        test_map_iteration();
        test_near_cache();
        test_map_damaged();
        test_map_claims();
        test_get_or_compute_in_full_map();
        return 0;
}

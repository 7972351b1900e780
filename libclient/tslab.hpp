#pragma once
/*
 * tslab for C++17: <tslab.h> and <tslab_map.h> with owners and types.
 *
 *      tslab_cxx::pool pool = tslab_cxx::pool::open("web");
 *
 *      tslab_cxx::handle<Session> h = pool.make<Session>(user, now);
 *      Session &session = pool.get(h);             (here, or in another process)
 *      pool.free(h);
 *
 *      tslab_cxx::memory_resource memory(pool);
 *      std::pmr::list<int> numbers(&memory);       (of this process and its forked children)
 *
 *      tslab_cxx::map pages(pool, "pages");
 *      pages.put("/", render(), 60s);
 *      std::optional<std::string> page = pages.get("/");
 *      std::string other = pages.get_or_compute("/other", render, 1.5s);
 *      for (const auto &[key, entry] : pages) ...
 *
 *      pages.put_as("point", Point{ 3, 4 });
 *      std::optional<Point> point = pages.get_as<Point>("point");
 *
 * Where <tslab.h> returns a negative errno, an exception is thrown: std::bad_alloc for -ENOMEM, or tslab_cxx::error,
 * which is a std::system_error, and whose what() names the call, and the pool, root or map if one has a name:
 * "tslab_map_put of 'pages': No space left on device". Threads and forks are as in <tslab.h>. Header only; link
 * libtslab.
 */
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <memory_resource>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include <unistd.h>

#include <tslab.h>
#include <tslab_map.h>
#include <tslab_near.h>

namespace tslab_cxx {

class error : public std::system_error {
      public:
        explicit error(int number, const std::string &what = "tslab")
            : std::system_error(number, std::generic_category(), what) {
        }
};

/* Returns the result of a call if it is no error. `name`: of what it was called for, such as a pool or a map. */
template <typename Result> Result check(Result result, const char *call, std::string_view name = {}) {
        if (result == -ENOMEM)
                throw std::bad_alloc();
        if (result < 0)
                throw error(static_cast<int>(-result),
                            name.empty() ? call : call + (" of '" + std::string(name) + "'"));
        return result;
}

/* Returns the name of a root or a map as C has it. Throws EINVAL if it has a NUL: in C it would be another name. */
inline const char *c_name(const std::string &name, const char *call) {
        if (name.find('\0') != std::string::npos)
                throw error(EINVAL, std::string(call) + " of a name with a NUL");
        return name.c_str();
}

/*
 * Names a live T, in all processes of its pool. Copying a handle copies the name: the first free of any copy
 * frees the object. A handle may be stored in the pool. A default one names nothing.
 */
template <typename T> class handle {
      public:
        handle() = default;
        explicit handle(tslab_handle raw) noexcept : raw_(raw) {
        }

        tslab_handle raw() const noexcept {
                return raw_;
        }
        explicit operator bool() const noexcept {
                return raw_ != 0;
        }
        friend bool operator==(handle a, handle b) noexcept {
                return a.raw_ == b.raw_;
        }
        friend bool operator!=(handle a, handle b) noexcept {
                return a.raw_ != b.raw_;
        }
        /* An order for containers, which says nothing of the objects. */
        friend bool operator<(handle a, handle b) noexcept {
                return a.raw_ < b.raw_;
        }
        friend bool operator>(handle a, handle b) noexcept {
                return b < a;
        }
        friend bool operator<=(handle a, handle b) noexcept {
                return !(b < a);
        }
        friend bool operator>=(handle a, handle b) noexcept {
                return !(a < b);
        }

      private:
        tslab_handle raw_ = 0;
};

/* A time in whole milliseconds, to which any duration is rounded up. One that is no number is negative. */
class span {
      public:
        constexpr span() noexcept = default;
        template <typename Rep, typename Period> constexpr span(std::chrono::duration<Rep, Period> time) {
                double ms = std::chrono::duration<double, std::milli>(time).count();

                if (std::is_floating_point_v<Rep> || !(ms > -1e15 && ms < 1e15)) /* hours::max(), too */
                        ms_ = rounded(ms);
                else
                        ms_ = std::chrono::ceil<std::chrono::milliseconds>(time).count();
        }

        constexpr int64_t ms() const noexcept {
                return ms_;
        }
        /* As a time to wait: negative ones are none, and longer ones than 49 days are 49 days. */
        constexpr std::chrono::milliseconds wait() const noexcept {
                return std::chrono::milliseconds(std::clamp(ms_, int64_t{ 0 }, int64_t{ UINT32_MAX }));
        }

      private:
        static int64_t rounded(double ms) noexcept {
                if (!(ms >= 0))
                        return -1;
                return ms < 1e15 ? static_cast<int64_t>(std::ceil(ms - 1e-6)) : int64_t{ 1 } << 50;
        }

        int64_t ms_ = 0;
};

/* The bytes of an object, as other processes see them. */
template <typename T> std::string_view bytes_of(const T &object) noexcept {
        static_assert(std::is_trivially_copyable_v<T>, "other processes see its bytes");
        return { reinterpret_cast<const char *>(std::addressof(object)), sizeof(T) };
}

/* An open pool, closed with its owner. Moved from, or after close(), it is empty and must not be used. */
class pool {
      public:
        /* As tslab_open(). */
        static pool open(const char *name = nullptr, const tslab_options *options = nullptr) {
                tslab *raw;

                check(tslab_open(&raw, name, options), "tslab_open", name ? name : "");
                return pool(raw);
        }

        /* As tslab_create(). */
        static pool create(const tslab_options *options = nullptr) {
                tslab *raw;

                check(tslab_create(&raw, options), "tslab_create");
                return pool(raw);
        }

        /* Takes over a pool that tslab_open() or tslab_create() made. */
        explicit pool(tslab *raw) noexcept : raw_(raw) {
        }
        pool(pool &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {
        }
        pool &operator=(pool &&other) noexcept {
                pool(std::move(other)).swap(*this);
                return *this;
        }
        pool(const pool &) = delete;
        pool &operator=(const pool &) = delete;
        ~pool() {
                close();
        }

        void swap(pool &other) noexcept {
                std::swap(raw_, other.raw_);
        }
        void close() noexcept {
                raw_ = tslab_close(raw_);
        }
        /* For the calls of <tslab.h>; stays owned. */
        tslab *raw() const noexcept {
                return raw_;
        }

        /*
         * Makes a new T in an epoch. Other processes see its bytes: these must mean the same there, and only
         * free() ends the object, so T has to be trivially copyable. While the constructor runs the object is
         * pending: a kill or an exception in there leaves nothing behind.
         */
        template <typename T, typename... Arguments>
        handle<T> make_in(uint32_t epoch, Arguments &&...arguments) {
                tslab_handle raw;
                void *object;

                static_assert(std::is_trivially_copyable_v<T>, "other processes see its bytes");
                static_assert(alignof(T) <= 16, "objects are aligned to 16");
                check(tslab_alloc_pending(raw_, sizeof(T), epoch, &raw, &object), "tslab_alloc_pending");
                try {
                        new (object) T{ std::forward<Arguments>(arguments)... };
                } catch (...) {
                        (void) tslab_free(raw_, raw);
                        throw;
                }
                check(tslab_publish(raw_, raw), "tslab_publish");
                return handle<T>(raw);
        }

        template <typename T, typename... Arguments> handle<T> make(Arguments &&...arguments) {
                return make_in<T>(TSLAB_EPOCH_CURRENT, std::forward<Arguments>(arguments)...);
        }

        /* Returns the object, which is good until somebody frees it. Throws ESTALE if it is gone. */
        template <typename T> T &get(handle<T> h) const {
                return *static_cast<T *>(address(h));
        }

        /* Returns nullptr if the object is gone, or too small to be a T. */
        template <typename T> T *find(handle<T> h) const noexcept {
                void *object;
                size_t size;

                if (tslab_get(raw_, h.raw(), &object, &size) != 0 || size < sizeof(T))
                        return nullptr;
                return static_cast<T *>(object);
        }

        /* Returns a copy that was made while the object was live; nothing if it is gone. */
        template <typename T> std::optional<T> read(handle<T> h) const {
                alignas(16) unsigned char bytes[4096];
                std::optional<T> copy;

                static_assert(std::is_trivially_copyable_v<T>, "its bytes are copied");
                if (tslab_read(raw_, h.raw(), bytes, sizeof(bytes)) < static_cast<ssize_t>(sizeof(T)))
                        return copy;
                copy.emplace(*std::launder(reinterpret_cast<T *>(bytes)));
                return copy;
        }

        /* Returns whether it was this call that freed the object. */
        template <typename T> bool free(handle<T> h) {
                int r = tslab_free(raw_, h.raw());

                return r != -ESTALE && check(r, "tslab_free") == 0;
        }

        /* Returns a root, or an empty handle. The object stored under the name has to be a T. */
        template <typename T> handle<T> root(const std::string &name) const {
                tslab_handle raw = 0;
                int r = tslab_root_get(raw_, c_name(name, "tslab_root_get"), &raw);

                if (r != -ENOENT)
                        check(r, "tslab_root_get", name);
                return handle<T>(raw);
        }

        /* Sets a root if it is `expected` (empty: absent). Returns whether it was. */
        template <typename T> bool set_root(const std::string &name, handle<T> expected, handle<T> h) {
                int r = tslab_root_set(raw_, c_name(name, "tslab_root_set"), expected.raw(), h.raw());

                return r != -EAGAIN && check(r, "tslab_root_set", name) == 0;
        }

        uint32_t epoch() const {
                uint32_t current;

                check(tslab_epoch_current(raw_, &current), "tslab_epoch_current");
                return current;
        }

        uint32_t advance() {
                uint32_t next;

                check(tslab_epoch_advance(raw_, &next), "tslab_epoch_advance");
                return next;
        }

        /*
         * As tslab_epoch_advance_from(): whether this call advanced, and the epoch that is current now.
         */
        std::pair<bool, uint32_t> advance_from(uint32_t expected) {
                uint32_t current;
                int r = check(tslab_epoch_advance_from(raw_, expected, &current), "tslab_epoch_advance_from");

                return { r > 0, current };
        }

        uint32_t reserve(const char *label = nullptr) {
                uint32_t reserved;

                check(tslab_epoch_reserve(raw_, label, &reserved), "tslab_epoch_reserve");
                return reserved;
        }

        void close_epoch(uint32_t epoch, bool revoke = false) {
                check(tslab_epoch_close(raw_, epoch, revoke ? TSLAB_CLOSE_REVOKE : 0), "tslab_epoch_close");
        }

      private:
        template <typename T> void *address(handle<T> h) const {
                void *object;
                size_t size;

                check(tslab_get(raw_, h.raw(), &object, &size), "tslab_get");
                if (size < sizeof(T))
                        throw error(ESTALE, "tslab_get"); /* an object of another type */
                return object;
        }

        tslab *raw_;
};

/* A block that the pool cannot have, as its what() says. */
class block_too_large : public std::bad_alloc {
      public:
        block_too_large(size_t size, size_t alignment, size_t most) noexcept {
                (void) std::snprintf(
                        what_, sizeof(what_),
                        "tslab_cxx::memory_resource: a block of %zu bytes, aligned to %zu: the pool's "
                        "have %zu bytes at most, aligned to 16; an `upstream` resource takes others",
                        size, alignment, most);
        }
        const char *what() const noexcept override {
                return what_;
        }

      private:
        char what_[224] = "";
};

/*
 * Memory of a pool for containers. Blocks are in `epoch`. The pool must outlive the resource. Any thread, as
 * far as `upstream` allows.
 *
 * Containers hold pointers. Other processes may use one only if they have the pool, and the code that the
 * container calls, at the same addresses: that is, forked children. The container itself must then be in the
 * pool too, and programs see to it that nobody reads while another one writes.
 *
 * A block that is too large for the pool (the largest class less 16 bytes), or aligned to more than 16, comes
 * from `upstream`, which is memory of this process alone. Without one such a block is refused: block_too_large, a
 * std::bad_alloc.
 */
class memory_resource : public std::pmr::memory_resource {
      public:
        explicit memory_resource(pool &of, uint32_t epoch = TSLAB_EPOCH_CURRENT,
                                 std::pmr::memory_resource *upstream = nullptr) noexcept
            : pool_(of.raw()), epoch_(epoch), upstream_(upstream) {
        }
        memory_resource(const memory_resource &) = delete;
        memory_resource &operator=(const memory_resource &) = delete;

      private:
        /* The size of a block alone must tell whether it is the pool's or upstream's. */
        bool is_ours(size_t size, size_t alignment) const noexcept {
                return alignment <= 16 && size <= size_max_;
        }

        void *do_allocate(size_t size, size_t alignment) override {
                void *block;

                size = size > 0 ? size : 1;
                if (!is_ours(size, alignment) && upstream_)
                        return upstream_->allocate(size, alignment);
                if (!is_ours(size, alignment))
                        throw block_too_large(size, alignment, size_max_);
                block = tslab_malloc(pool_, size, epoch_);
                if (!block)
                        check(-errno, "tslab_malloc");
                return block;
        }

        void do_deallocate(void *block, size_t size, size_t alignment) override {
                size = size > 0 ? size : 1;
                if (is_ours(size, alignment))
                        tslab_mfree(pool_, block);
                else
                        upstream_->deallocate(block, size, alignment);
        }

        bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
                return this == &other;
        }

        tslab *pool_;
        uint32_t epoch_;
        std::pmr::memory_resource *upstream_;
        size_t size_max_ = tslab_size_max(pool_) - 16; /* as tslab_malloc() takes */
};

/* An entry of a map, copied out. */
struct map_entry {
        std::string value{};
        tslab_handle version = 0; /* 0: of a stale value */
        uint32_t epoch = 0;
        bool is_counter = false, is_stale = false;
        std::optional<std::chrono::milliseconds> left{}; /* nothing: it has no end */
};

/* A claim on a key. */
struct map_claim {
        tslab_handle version;
        bool is_ours; /* false: another thread or process has it */
};

/*
 * A map of a pool, open in this process, as tslab_map_open(). Keys and values are bytes. The pool must outlive the map.
 * After a move from it, or after close(), a map must not be used. A lifetime of 0 means the map's default, and `no_end`
 * means none. Lifetimes are of any std::chrono::duration, at most ten years, and rounded up to whole milliseconds.
 */
class map {
      public:
        using milliseconds = std::chrono::milliseconds;
        static constexpr milliseconds no_end{ TSLAB_MAP_TTL_MAX * 2 }; /* now() can be added to it */

        map(const pool &of, const std::string &name, const tslab_map_options *options = nullptr)
            : name_(name) {
                checked(tslab_map_open(&raw_, of.raw(), c_name(name, "tslab_map_open"), options),
                        "tslab_map_open");
        }
        map(map &&other) noexcept : name_(std::move(other.name_)), raw_(std::exchange(other.raw_, nullptr)) {
        }
        map &operator=(map &&other) noexcept {
                map(std::move(other)).swap(*this);
                return *this;
        }
        map(const map &) = delete;
        map &operator=(const map &) = delete;
        ~map() {
                close();
        }

        void swap(map &other) noexcept {
                name_.swap(other.name_);
                std::swap(raw_, other.raw_);
        }
        void close() noexcept {
                raw_ = tslab_map_close(raw_);
        }
        /* For the calls of <tslab_map.h>; stays owned. */
        tslab_map *raw() const noexcept {
                return raw_;
        }
        size_t size_max() const noexcept {
                return tslab_map_size_max(raw_);
        }

        /* Returns the value, or nothing if the key is absent. */
        std::optional<std::string> get(std::string_view key) const {
                std::optional<map_entry> found = find(key);

                return found ? std::optional<std::string>(std::move(found->value)) : std::nullopt;
        }

        bool contains(std::string_view key) const {
                tslab_map_info info = new_info(false);
                ssize_t n = tslab_map_get_with(raw_, key.data(), key.size(), nullptr, 0, &info);

                return n != -ENOENT && (n == -EMSGSIZE || checked(n, "tslab_map_get_with") >= 0);
        }

        /* As get(), for values that are the bytes of a T. Throws EINVAL if the value has another size. */
        template <typename T> std::optional<T> get_as(std::string_view key) const {
                alignas(T) unsigned char bytes[sizeof(T)];
                tslab_map_info info = new_info(false);
                ssize_t n;

                static_assert(std::is_trivially_copyable_v<T>, "its bytes are copied");
                n = tslab_map_get_with(raw_, key.data(), key.size(), bytes, sizeof(bytes), &info);
                if (n == -ENOENT)
                        return std::nullopt;
                if (n == -EMSGSIZE || (n >= 0 && static_cast<size_t>(n) != sizeof(T)))
                        n = -EINVAL;
                checked(n, "a value of another type");
                return *std::launder(reinterpret_cast<T *>(bytes));
        }

        template <typename T>
        void put_as(std::string_view key, const T &value, span ttl = {},
                    uint32_t epoch = TSLAB_EPOCH_CURRENT) {
                put(key, bytes_of(value), ttl, epoch);
        }

        /* As get(), with version, epoch and lifetime; with `accept_stale`, also a stale value. */
        std::optional<map_entry> find(std::string_view key, bool accept_stale = false) const {
                tslab_map_info info = new_info(accept_stale);
                void *bytes;
                int r = tslab_map_get_alloc(raw_, key.data(), key.size(), &bytes, &info);

                if (r == -ENOENT)
                        return std::nullopt;
                checked(r, "tslab_map_get_alloc");
                std::unique_ptr<void, void (*)(void *)> owner(bytes, std::free);
                return make_entry(std::string(static_cast<const char *>(bytes), info.value_size), info);
        }

        /* As tslab_map_take(): deletes a key. Returns the value that it had; nothing if the key is absent. */
        std::optional<map_entry> take(std::string_view key) {
                tslab_map_info info = new_info(false);
                std::string value(256, 0);
                ssize_t n;

                while ((n = tslab_map_take(raw_, key.data(), key.size(), value.data(), value.size(),
                                           &info)) == -EMSGSIZE)
                        value.resize(info.value_size);
                if (n == -ENOENT)
                        return std::nullopt;
                checked(n, "tslab_map_take");
                value.resize(static_cast<size_t>(n));
                return make_entry(std::move(value), info);
        }

        /* As tslab_map_get_touch(): the value, with the new lifetime; nothing if the key is absent. */
        std::optional<map_entry> get_touch(std::string_view key, span ttl) {
                tslab_map_info info = new_info(false);
                std::string value(256, 0);
                ssize_t n;

                while ((n = tslab_map_get_touch(raw_, key.data(), key.size(), ttl_of(ttl), value.data(),
                                                value.size(), &info)) == -EMSGSIZE)
                        value.resize(info.value_size);
                if (n == -ENOENT)
                        return std::nullopt;
                checked(n, "tslab_map_get_touch");
                value.resize(static_cast<size_t>(n));
                return make_entry(std::move(value), info);
        }

        /*
         * Returns bytes of the value that has this version, from `offset` on, at most `size`; nothing if the value was
         * replaced or deleted meanwhile.
         */
        std::optional<std::string> read(tslab_handle version, size_t offset, size_t size) const {
                std::string part(std::min(size, longest_value), 0);
                ssize_t n = tslab_map_read(raw_, version, offset, part.data(), part.size());

                if (n == -ESTALE)
                        return std::nullopt;
                part.resize(static_cast<size_t>(checked(n, "tslab_map_read")));
                return part;
        }

        void put(std::string_view key, std::string_view value, span ttl = {},
                 uint32_t epoch = TSLAB_EPOCH_CURRENT) {
                checked(put_with(key, value, TSLAB_MAP_PUT, 0, ttl, epoch), "tslab_map_put");
        }

        /* Sets a value if the key is absent. Returns whether it was. */
        bool insert(std::string_view key, std::string_view value, span ttl = {},
                    uint32_t epoch = TSLAB_EPOCH_CURRENT) {
                int r = put_with(key, value, TSLAB_MAP_INSERT, 0, ttl, epoch);

                return r != -EEXIST && checked(r, "tslab_map_put_with") == 0;
        }

        /* Sets a value if the key is present. Returns whether it was. */
        bool update(std::string_view key, std::string_view value, span ttl = {},
                    uint32_t epoch = TSLAB_EPOCH_CURRENT) {
                int r = put_with(key, value, TSLAB_MAP_UPDATE, 0, ttl, epoch);

                return r != -ENOENT && checked(r, "tslab_map_put_with") == 0;
        }

        /* Sets a value if the present one, or a claim, has this version; 0: if the key is absent. Returns whether. */
        bool replace(std::string_view key, tslab_handle version, std::string_view value, span ttl = {},
                     uint32_t epoch = TSLAB_EPOCH_CURRENT) {
                int r = put_with(key, value, TSLAB_MAP_REPLACE, version, ttl, epoch);

                return r != -EAGAIN && checked(r, "tslab_map_replace") == 0;
        }

        /* Returns whether the key is present. */
        bool touch(std::string_view key, span ttl) {
                int r = tslab_map_touch(raw_, key.data(), key.size(), ttl_of(ttl));

                return r != -ENOENT && checked(r, "tslab_map_touch") == 0;
        }

        /* Returns whether it was present. */
        bool erase(std::string_view key) {
                int r = tslab_map_delete(raw_, key.data(), key.size());

                return r != -ENOENT && checked(r, "tslab_map_delete") == 0;
        }

        /* Deletes only if the value, or a claim, has this version. */
        bool erase(std::string_view key, tslab_handle version) {
                int r = tslab_map_delete_version(raw_, key.data(), key.size(), version);

                return r != -ENOENT && r != -EAGAIN && checked(r, "tslab_map_delete_version") == 0;
        }

        /* Returns the sum, as tslab_map_add(). */
        int64_t add(std::string_view key, int64_t delta = 1, int64_t initial = 0, span ttl = {}) {
                int64_t sum;

                checked(tslab_map_add(raw_, key.data(), key.size(), delta, initial, ttl_of(ttl), &sum),
                        "tslab_map_add");
                return sum;
        }

        /* Sets the counter in place, where add_at() goes on to find it. */
        void set_counter(std::string_view key, int64_t value, span ttl = {}) {
                tslab_map_add_options options = {};

                options.size = sizeof(options);
                options.mode = TSLAB_MAP_ADD_SET;
                options.ttl_ms = ttl_of(ttl);
                checked(tslab_map_add_with(raw_, key.data(), key.size(), value, &options, nullptr),
                        "tslab_map_add_with");
        }

        /* As tslab_map_add_at(): adds to the counter of this version. Returns nothing if that counter is gone. */
        std::optional<int64_t> add_at(tslab_handle counter, int64_t delta = 1) {
                int64_t sum;
                int r = tslab_map_add_at(raw_, counter, delta, &sum);

                if (r == -ESTALE)
                        return std::nullopt;
                checked(r, "tslab_map_add_at");
                return sum;
        }

        /* As tslab_map_limit(). Returns nothing if the tokens were taken, else after which time to try again. */
        std::optional<milliseconds> limit(std::string_view key, double per_second, uint32_t burst,
                                          uint32_t cost = 1) {
                uint64_t retry_ms;

                if (checked(tslab_map_limit(raw_, key.data(), key.size(), per_second, burst, cost, &retry_ms),
                            "tslab_map_limit") == 0)
                        return std::nullopt;
                return milliseconds(retry_ms);
        }

        /* As tslab_map_claim(). Returns nothing if the key has a value. */
        std::optional<map_claim> claim(std::string_view key, uint32_t epoch = TSLAB_EPOCH_CURRENT) {
                tslab_handle version;
                int r = tslab_map_claim(raw_, key.data(), key.size(), epoch, &version);

                if (r == -EEXIST)
                        return std::nullopt;
                if (r != -EBUSY)
                        checked(r, "tslab_map_claim");
                return map_claim{ version, r == 0 };
        }

        /* Waits until a claim has ended. Returns false if the time is over, or if a signal handler ran. */
        bool wait(std::string_view key, const map_claim &claimed, span timeout) const {
                int r = tslab_map_wait(raw_, key.data(), key.size(), claimed.version,
                                       static_cast<uint32_t>(timeout.wait().count()));

                return r != -ETIMEDOUT && r != -EINTR && checked(r, "tslab_map_wait") == 0;
        }

        /*
         * Returns the value. If the key is absent, one process at a time computes the value; the others wait for it, or
         * return a stale value, if the map keeps stale values. `compute` takes nothing and returns a std::string. A
         * process that has waited for `timeout` also computes, and so does a process that cannot claim the key, as in a
         * full map. If `compute` throws, the claim is given up.
         */
        template <typename Compute>
        std::string get_or_compute(std::string_view key, Compute &&compute, span ttl = {},
                                   span timeout = std::chrono::seconds(10)) {
                auto deadline = std::chrono::steady_clock::now() + timeout.wait();

                for (;;) {
                        std::optional<map_entry> found = find(key, true);
                        if (found && !found->is_stale)
                                return std::move(found->value);
                        map_claim claimed{};
                        int r = tslab_map_claim(raw_, key.data(), key.size(), TSLAB_EPOCH_CURRENT,
                                                &claimed.version);
                        if (r == 0)
                                return fulfil(key, claimed, compute, ttl);
                        if (r == -EBUSY && found)
                                return std::move(found->value);
                        auto left =
                                std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
                        if ((r != -EBUSY && r != -EEXIST) || left <= milliseconds(0))
                                return compute();
                        if (r == -EBUSY)
                                (void) wait(key, claimed, left);
                }
        }

        /*
         * All entries, as tslab_map_next(): `for (const auto &[key, entry] : map)`. The position is a value, so an
         * iterator may be copied, kept, and go on while others change the map. Where a stray write has damaged
         * values, an error with EUCLEAN follows all the others.
         */
        class iterator {
              public:
                using iterator_category = std::input_iterator_tag;
                using value_type = std::pair<std::string, map_entry>;
                using difference_type = std::ptrdiff_t;
                using pointer = const value_type *;
                using reference = const value_type &;

                iterator() = default;
                iterator(const iterator &) = default;
                iterator &operator=(const iterator &) = default;

                reference operator*() const noexcept {
                        return value_;
                }
                pointer operator->() const noexcept {
                        return &value_;
                }
                iterator &operator++() {
                        while (of_ && !step()) {
                        }
                        return *this;
                }
                iterator operator++(int) {
                        iterator before = *this;

                        ++*this;
                        return before;
                }
                /* Only the end is equal to the end. */
                friend bool operator==(const iterator &a, const iterator &b) noexcept {
                        return a.of_ == b.of_;
                }
                friend bool operator!=(const iterator &a, const iterator &b) noexcept {
                        return a.of_ != b.of_;
                }

              private:
                friend map;
                explicit iterator(const map *of) : of_(of), room_(first_room, 0) {
                        ++*this;
                }

                /* Whether it is at an entry, or at the end. */
                bool step() {
                        tslab_map_info info = new_info(false);
                        int r = tslab_map_next(of_->raw_, &cursor_, room_.data(), room_.size(), &info);

                        if (r == 0)
                                return end();
                        damaged_ = damaged_ || r == -EUCLEAN;
                        if (r == -EUCLEAN)
                                return false;
                        of_->checked(r, "tslab_map_next");
                        value_.first.assign(room_, 0, info.key_size);
                        std::optional<map_entry> entry =
                                info.flags & TSLAB_MAP_KEY_ONLY
                                        ? of_->find_whole(value_.first, damaged_)
                                        : make_entry(room_.substr(info.key_size, info.value_size), info);
                        if (entry)
                                value_.second = *std::move(entry);
                        return entry.has_value();
                }

                bool end() {
                        const map *of = std::exchange(of_, nullptr);

                        if (std::exchange(damaged_, false))
                                of->checked(-EUCLEAN, "tslab_map_next");
                        return true;
                }

                const map *of_ = nullptr; /* nullptr: at the end */
                std::string room_{};
                tslab_map_cursor cursor_{};
                value_type value_{};
                bool damaged_ = false;
        };

        iterator begin() const {
                return iterator(this);
        }
        iterator end() const noexcept {
                return iterator();
        }

        /* Calls `visit(key, entry)` for each entry, until it returns false. */
        template <typename Visit> void for_each(Visit &&visit) const {
                for (const auto &[key, entry] : *this)
                        if (!visit(key, entry))
                                return;
        }

        size_t expire(uint32_t epoch) {
                return static_cast<size_t>(checked(tslab_map_expire(raw_, epoch), "tslab_map_expire"));
        }
        /* Deletes all entries, and with them claims and stale values. Returns how many entries there were. */
        size_t clear() {
                return expire(TSLAB_MAP_EPOCH_ALL);
        }
        size_t count() const {
                return static_cast<size_t>(checked(tslab_map_count(raw_), "tslab_map_count"));
        }

        struct tslab_map_statistics statistics() const {
                struct tslab_map_statistics counts {};

                counts.size = sizeof(counts);
                checked(tslab_map_statistics(raw_, &counts), "tslab_map_statistics");
                return counts;
        }

      private:
        static constexpr size_t longest_value = size_t{ 16 } << 20;
        static constexpr size_t first_room = 8192; /* more than a key takes */

        std::optional<map_entry> find_whole(std::string_view key, bool &damaged) const {
                try {
                        return find(key);
                } catch (const error &e) {
                        if (e.code().value() != EUCLEAN)
                                throw;
                        damaged = true;
                        return std::nullopt;
                }
        }

        template <typename Result> Result checked(Result result, const char *call) const {
                return check(result, call, name_);
        }

        uint64_t ttl_of(span ttl) const {
                if (ttl.ms() < 0)
                        checked(-EINVAL, "a lifetime");
                return ttl.ms() == no_end.count() ? TSLAB_MAP_TTL_NONE : static_cast<uint64_t>(ttl.ms());
        }

        static tslab_map_info new_info(bool accept_stale) {
                tslab_map_info info{};

                info.size = sizeof(info);
                info.accept = accept_stale ? TSLAB_MAP_STALE : 0;
                return info;
        }

        static map_entry make_entry(std::string value, const tslab_map_info &info) {
                map_entry entry{ std::move(value),
                                 info.version,
                                 info.epoch,
                                 (info.flags & TSLAB_MAP_COUNTER) != 0,
                                 (info.flags & TSLAB_MAP_STALE) != 0,
                                 std::nullopt };

                if (info.ttl_left_ms != UINT64_MAX)
                        entry.left = milliseconds(info.ttl_left_ms);
                return entry;
        }

        int put_with(std::string_view key, std::string_view value, uint32_t mode, tslab_handle version,
                     span ttl, uint32_t epoch) {
                tslab_map_put_options options{};

                options.size = sizeof(options);
                options.epoch = epoch;
                options.ttl_ms = ttl_of(ttl);
                options.mode = mode;
                options.version = version;
                return tslab_map_put_with(raw_, key.data(), key.size(), value.data(), value.size(), &options);
        }

        void give_up(std::string_view key, const map_claim &claimed) noexcept {
                (void) tslab_map_delete_version(raw_, key.data(), key.size(), claimed.version);
        }

        /* If the value comes too late, or the map has no room for it, the caller gets it nevertheless. */
        template <typename Compute>
        std::string fulfil(std::string_view key, const map_claim &claimed, Compute &compute, span ttl) {
                const pid_t claimant = getpid(); /* a child that is forked meanwhile leaves the claim alone */

                try {
                        std::string value = compute();

                        if (getpid() == claimant && put_with(key, value, TSLAB_MAP_REPLACE, claimed.version,
                                                             ttl, TSLAB_EPOCH_CURRENT) != 0)
                                give_up(key, claimed);
                        return value;
                } catch (...) {
                        if (getpid() == claimant)
                                give_up(key, claimed);
                        throw;
                }
        }

        std::string name_;
        tslab_map *raw_ = nullptr;
};

/* An engine's answer. `server`: its run id, "" if that is not known; `left`: the time that the engine gives the value. */
struct near_answer {
        std::optional<std::string> value{}; /* nothing: the engine has no such key */
        std::string server{};
        span left = map::no_end;
};

/*
 * A near cache, as <tslab_near.h>: copies of an engine's values, which a daemon keeps coherent, tslab-near for Redis and
 * Valkey. The pool must outlive it. After a move from it, or after close(), it must not be used.
 */
class near_cache {
      public:
        explicit near_cache(const pool &of, const std::string &name = "near",
                            const tslab_map_options *options = nullptr)
            : name_(name) {
                checked(tslab_near_open(&raw_, of.raw(), c_name(name, "tslab_near_open"), options),
                        "tslab_near_open");
        }
        near_cache(near_cache &&other) noexcept
            : name_(std::move(other.name_)), raw_(std::exchange(other.raw_, nullptr)) {
        }
        near_cache &operator=(near_cache &&other) noexcept {
                near_cache(std::move(other)).swap(*this);
                return *this;
        }
        near_cache(const near_cache &) = delete;
        near_cache &operator=(const near_cache &) = delete;
        ~near_cache() {
                close();
        }

        void swap(near_cache &other) noexcept {
                name_.swap(other.name_);
                std::swap(raw_, other.raw_);
        }
        void close() noexcept {
                raw_ = tslab_near_close(raw_);
        }
        /* For the calls of <tslab_near.h>; stays owned. */
        tslab_near *raw() const noexcept {
                return raw_;
        }

        /*
         * Returns the copy of a value, or else what the engine says; nothing: the engine has no such key. One of the
         * processes that miss a key calls `ask(again)`, which asks the engine and returns a near_answer; the others
         * wait for its answer, but not longer than `wait`. If the changes of the server that answered are not heard,
         * the answer may be old: then `ask` is called once more with `again` true, and connects anew. An exception
         * of `ask` ends the claim.
         */
        template <typename Ask>
        std::optional<std::string> get(std::string_view key, Ask &&ask,
                                       span wait = std::chrono::milliseconds(50)) {
                std::string value(first_room, 0);
                tslab_near_claim claimed{};
                ssize_t n;

                while ((n = tslab_near_get(raw_, key.data(), key.size(), value.data(), value.size(),
                                           static_cast<uint32_t>(wait.wait().count()), &claimed)) ==
                       -EMSGSIZE)
                        value.resize(value.size() * 8);
                if (n == -ENODATA)
                        return std::nullopt;
                if (n >= 0) {
                        value.resize(static_cast<size_t>(n));
                        return value;
                }
                if (n != -ENOENT)
                        checked(n, "tslab_near_get");
                near_answer answer = ask_for(key, claimed, ask, false);
                if (fill(key, claimed, answer) == -EREMCHG && !answer.server.empty())
                        answer = ask(true);
                return std::move(answer.value);
        }

        /* Drops the copy of a key that the program has changed in the engine. */
        void drop(std::string_view key) {
                checked(tslab_near_drop(raw_, key.data(), key.size()), "tslab_near_drop");
        }

      private:
        static constexpr size_t first_room = 4096;

        template <typename Result> Result checked(Result result, const char *call) const {
                return check(result, call, name_);
        }

        template <typename Ask>
        near_answer ask_for(std::string_view key, const tslab_near_claim &claimed, Ask &ask, bool again) {
                const pid_t claimant = getpid(); /* a child that is forked meanwhile leaves the claim alone */

                try {
                        return ask(again);
                } catch (...) {
                        if (getpid() == claimant)
                                (void) tslab_near_give_up(raw_, key.data(), key.size(), &claimed);
                        throw;
                }
        }

        /* The copy may end sooner than the engine's value. */
        static uint64_t lifetime_of(span left) {
                if (left.ms() == map::no_end.count())
                        return TSLAB_MAP_TTL_NONE;
                return static_cast<uint64_t>(
                        std::clamp(left.ms(), int64_t{ 1 }, int64_t{ TSLAB_MAP_TTL_MAX }));
        }

        /* Other results are no concern of the caller, who has the answer. */
        int fill(std::string_view key, const tslab_near_claim &claimed, const near_answer &answer) {
                return tslab_near_fill(raw_, key.data(), key.size(), &claimed,
                                       answer.server.empty() ? nullptr : answer.server.c_str(),
                                       answer.value ? answer.value->data() : nullptr,
                                       answer.value ? answer.value->size() : 0, lifetime_of(answer.left));
        }

        std::string name_;
        tslab_near *raw_ = nullptr;
};

} /* namespace tslab_cxx */

template <typename T> struct std::hash<tslab_cxx::handle<T>> {
        size_t operator()(tslab_cxx::handle<T> h) const noexcept {
                return std::hash<tslab_handle>()(h.raw());
        }
};

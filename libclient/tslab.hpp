#pragma once
/*
 * tslab for C++17: <tslab.h> with owners and types.
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
 * Where <tslab.h> returns a negative errno, an exception is thrown: tslab_cxx::error, which is a
 * std::system_error, or std::bad_alloc for -ENOMEM. Threads and forks are as in <tslab.h>. Header only; link
 * libtslab.
 */
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory_resource>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#include <tslab.h>

namespace tslab_cxx {

class error : public std::system_error {
    public:
        explicit error(int number) : std::system_error(number, std::generic_category(), "tslab") {}
};

/* Returns the result if it is no error. */
template <typename Result> Result check(Result result) {
        if (result == -ENOMEM)
                throw std::bad_alloc();
        if (result < 0)
                throw error(static_cast<int>(-result));
        return result;
}

/*
 * Names a live T, in all processes of its pool. Copying a handle copies the name: the first free of any copy
 * frees the object. A handle may be stored in the pool. A default one names nothing.
 */
template <typename T> class handle {
    public:
        handle() = default;
        explicit handle(tslab_handle raw) noexcept : raw_(raw) {}

        tslab_handle raw() const noexcept { return raw_; }
        explicit operator bool() const noexcept { return raw_ != 0; }
        friend bool operator==(handle a, handle b) noexcept { return a.raw_ == b.raw_; }
        friend bool operator!=(handle a, handle b) noexcept { return a.raw_ != b.raw_; }

    private:
        tslab_handle raw_ = 0;
};

/* An open pool, closed with its owner. Moved from, or after close(), it is empty and must not be used. */
class pool {
    public:
        /* As tslab_open(). */
        static pool open(const char *name = nullptr, const tslab_options *options = nullptr) {
                tslab *raw;

                check(tslab_open(&raw, name, options));
                return pool(raw);
        }

        /* As tslab_create(). */
        static pool create(const tslab_options *options = nullptr) {
                tslab *raw;

                check(tslab_create(&raw, options));
                return pool(raw);
        }

        /* Takes over a pool that tslab_open() or tslab_create() made. */
        explicit pool(tslab *raw) noexcept : raw_(raw) {}
        pool(pool &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
        pool &operator=(pool &&other) noexcept {
                pool(std::move(other)).swap(*this);
                return *this;
        }
        pool(const pool &) = delete;
        pool &operator=(const pool &) = delete;
        ~pool() { close(); }

        void swap(pool &other) noexcept { std::swap(raw_, other.raw_); }
        void close() noexcept { raw_ = tslab_close(raw_); }
        /* For the calls of <tslab.h>; stays owned. */
        tslab *raw() const noexcept { return raw_; }

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
                check(tslab_alloc_pending(raw_, sizeof(T), epoch, &raw, &object));
                try {
                        new (object) T{ std::forward<Arguments>(arguments)... };
                } catch (...) {
                        (void) tslab_free(raw_, raw);
                        throw;
                }
                check(tslab_publish(raw_, raw));
                return handle<T>(raw);
        }

        template <typename T, typename... Arguments> handle<T> make(Arguments &&...arguments) {
                return make_in<T>(TSLAB_EPOCH_CURRENT, std::forward<Arguments>(arguments)...);
        }

        /* Returns the object, which is good until somebody frees it. Throws ESTALE if it is gone. */
        template <typename T> T &get(handle<T> h) const { return *static_cast<T *>(address(h)); }

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

                return r != -ESTALE && check(r) == 0;
        }

        /* Returns a root, or an empty handle. The object stored under the name has to be a T. */
        template <typename T> handle<T> root(const std::string &name) const {
                tslab_handle raw = 0;
                int r = tslab_root_get(raw_, name.c_str(), &raw);

                if (r != -ENOENT)
                        check(r);
                return handle<T>(raw);
        }

        /* Sets a root if it is `expected` (empty: absent). Returns whether it was. */
        template <typename T>
        bool set_root(const std::string &name, handle<T> expected, handle<T> h) {
                int r = tslab_root_set(raw_, name.c_str(), expected.raw(), h.raw());

                return r != -EAGAIN && check(r) == 0;
        }

        uint32_t epoch() const {
                uint32_t epoch;

                check(tslab_epoch_current(raw_, &epoch));
                return epoch;
        }

        uint32_t advance() {
                uint32_t epoch;

                check(tslab_epoch_advance(raw_, &epoch));
                return epoch;
        }

        /*
         * As tslab_epoch_advance_from(): whether this call advanced, and the epoch that is current now.
         */
        std::pair<bool, uint32_t> advance_from(uint32_t expected) {
                uint32_t epoch;
                int r = check(tslab_epoch_advance_from(raw_, expected, &epoch));

                return { r > 0, epoch };
        }

        uint32_t reserve(const char *label = nullptr) {
                uint32_t epoch;

                check(tslab_epoch_reserve(raw_, label, &epoch));
                return epoch;
        }

        void close_epoch(uint32_t epoch, bool revoke = false) {
                check(tslab_epoch_close(raw_, epoch, revoke ? TSLAB_CLOSE_REVOKE : 0));
        }

    private:
        template <typename T> void *address(handle<T> h) const {
                void *object;
                size_t size;

                check(tslab_get(raw_, h.raw(), &object, &size));
                if (size < sizeof(T))
                        throw error(ESTALE); /* an object of another type */
                return object;
        }

        tslab *raw_;
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
 * from `upstream`, which is memory of this process alone. Without one such a block is refused: error(E2BIG).
 */
class memory_resource : public std::pmr::memory_resource {
    public:
        explicit memory_resource(pool &pool, uint32_t epoch = TSLAB_EPOCH_CURRENT,
                                 std::pmr::memory_resource *upstream = nullptr) noexcept
            : pool_(pool.raw()), epoch_(epoch), upstream_(upstream) {}

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
                if (alignment > 16)
                        throw error(E2BIG);
                block = tslab_malloc(pool_, size, epoch_);
                if (!block)
                        check(-errno);
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

} /* namespace tslab_cxx */

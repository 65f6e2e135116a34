// What C++ has of its own: a memory resource on a tier heap, and errors as exceptions.
//
// Needs C++17. Link with libnearfar: pkg-config --cflags --libs nearfar.

#ifndef NEARFAR_HPP
#define NEARFAR_HPP

#include <cstddef>
#include <memory_resource>
#include <new>
#include <stdexcept>
#include <string>

#include "nearfar.h"

namespace nearfar {

/// A call that has failed.
class error : public std::runtime_error {
public:
    explicit error(nearfar_status status)
        : std::runtime_error(std::string(nearfar_status_name(status)) + ": " + nearfar_last_error()),
          status_(status) {}

    nearfar_status status() const noexcept { return status_; }

private:
    nearfar_status status_;
};

/// Throws what has failed.
inline void check(nearfar_status status) {
    if (status != NEARFAR_STATUS_OK) {
        throw error(status);
    }
}

/// The memory of this machine.
class system {
public:
    explicit system(const char *profile = nullptr) {
        check(nearfar_system_open(profile, nullptr, 0, &handle_));
    }
    system(const system &) = delete;
    system &operator=(const system &) = delete;
    ~system() { nearfar_system_close(handle_); }

    nearfar_handle handle() const noexcept { return handle_; }

private:
    nearfar_handle handle_ = 0;
};

/// Memory of containers on a tier. What does not fit is `std::bad_alloc`, unless the heap spills.
///
/// It has to outlive the containers. Any number of threads may use it.
class tier_resource : public std::pmr::memory_resource {
public:
    tier_resource(const system &system, const char *tier, const nearfar_heap_options *options = nullptr) {
        check(nearfar_heap_create(system.handle(), tier, options, &heap_));
    }
    tier_resource(const tier_resource &) = delete;
    tier_resource &operator=(const tier_resource &) = delete;
    ~tier_resource() override { nearfar_heap_free(heap_); }

    /// Gives freed memory back to the tier.
    void trim() { check(nearfar_heap_trim(heap_)); }

private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override {
        void *block = nullptr;
        if (nearfar_heap_allocate(heap_, bytes, alignment, &block) != NEARFAR_STATUS_OK) {
            throw std::bad_alloc();
        }
        return block;
    }

    void do_deallocate(void *block, std::size_t bytes, std::size_t alignment) override {
        // It fails for no block of this heap.
        nearfar_heap_deallocate(heap_, block, bytes, alignment);
    }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        return this == &other;
    }

    nearfar_handle heap_ = 0;
};

}  // namespace nearfar

#endif

// Containers of the standard library whose memory is far, as a cache would have its values.

#include <cassert>
#include <cstdio>
#include <map>
#include <memory_resource>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "nearfar.hpp"

int main() {
    nearfar::system system("cxl-blades-4");
    nearfar::tier_resource far(system, "far");
    std::pmr::map<int, std::pmr::string> cache(&far);
    for (int key = 0; key < 1000; key++) {
        cache.emplace(key, std::pmr::string(100, 'x'));
    }
    cache.erase(cache.begin(), cache.find(500));
    assert(cache.size() == 500 && cache.at(999).size() == 100);

    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; thread++) {
        threads.emplace_back([&far] {
            std::pmr::vector<long> numbers(&far);
            for (long number = 0; number < 100000; number++) {
                numbers.push_back(number);
            }
            assert(numbers.back() == 99999);
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    far.trim();

    nearfar_heap_options options = {};
    options.reserve_bytes = 64 << 20;
    nearfar::tier_resource small(system, "far", &options);
    try {
        std::pmr::vector<char> too_large(1ul << 33, &small);
        assert(false);
    } catch (const std::bad_alloc &) {
        std::puts("8 GiB do not fit into a heap of 64 MiB");
    }
    try {
        nearfar::tier_resource nowhere(system, "no-such-tier");
        assert(false);
    } catch (const nearfar::error &error) {
        assert(error.status() == NEARFAR_STATUS_NAME);
        std::puts(error.what());
    }
}

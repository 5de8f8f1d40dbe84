// A fault on purpose, to show that a channel survives one.
// One thread. Touches no memory: it traps, or reads at an address that no
// context maps.

#include "slice.cuh"

namespace {

struct FaultArgs {
    uint32_t bad_address;  // 0: trap; else: read where nothing is
};

}  // namespace

extern "C" __global__ void fault(const __grid_constant__ FaultArgs args) {
    if (args.bad_address == 0) {
        __trap();
    } else {
        const volatile uint32_t* nowhere = reinterpret_cast<const uint32_t*>(16);
        if (*nowhere == 1) {
            __trap();
        }
    }
}

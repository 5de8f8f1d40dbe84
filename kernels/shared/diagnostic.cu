// Kernels that belong to no operation: crates/ops/src/device/cuda/diagnostic.rs.
//   empty   does nothing: the cost of a launch, for the benchmarks
//   fault   traps, or reads an address that no context maps: a fault, for tests

#include "shared/slice.cuh"

namespace diagnostic {

struct EmptyArgs {
    Slice<uint32_t> nothing;
};

struct FaultArgs {
    uint32_t bad_address;  // 0: trap
};

}  // namespace diagnostic

extern "C" __global__ void empty(const __grid_constant__ diagnostic::EmptyArgs) {}

extern "C" __global__ void fault(const __grid_constant__ diagnostic::FaultArgs args) {
    if (args.bad_address == 0) {
        __trap();
    } else {
        const volatile uint32_t* unmapped = reinterpret_cast<const uint32_t*>(16);
        if (*unmapped == 1) {
            __trap();
        }
    }
}

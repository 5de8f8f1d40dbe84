// Nothing: what a launch costs, for the benchmarks.

#include "slice.cuh"

namespace {

struct EmptyArgs {
    Slice<uint32_t> nothing;
};

}  // namespace

extern "C" __global__ void empty(const __grid_constant__ EmptyArgs) {}

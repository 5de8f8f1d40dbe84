// A step of a linear layer: the products of 8 or 16 rows in shared memory, of 256 inputs, with
// weights that pass from device memory straight to registers: while a step is multiplied, the
// weights of the next are loaded.
#pragma once

#include "view/linear_products.cuh"

namespace detr3d_block {

constexpr uint32_t kThreads = 512;
constexpr uint32_t kWarps = kThreads / kLanes;
// Thread blocks of a cluster.
constexpr uint32_t kBlocks = 2;
// Inputs of a step.
constexpr uint32_t kStepInputs = 256;

// Which weights a step multiplies: groups of 16 columns of a packed layer.
struct Columns {
    const uint8_t* weights;
    uint32_t num_inputs;  // of the layer
    uint32_t first_input;
    uint32_t first_group;
    uint32_t num_groups;
};

// A warp has 16 columns and half of the inputs. The weights are the first
// operand of the matrix instruction, the rows the second; a lane has two columns of two rows.
template <uint32_t kRows>
struct Product {
    // Columns of a thread block, and floats from a row of sums to the next.
    static constexpr uint32_t kColumns = kStepInputs / kBlocks;
    static constexpr uint32_t kSumPitch = kColumns + 4;
    static constexpr uint32_t kGroups = kColumns / linear::kWarpColumns;
    static constexpr uint32_t kParts = kWarps / kGroups;
    static constexpr uint32_t kPartLen = kRows * kSumPitch;
    static constexpr uint32_t kPartInputs = kStepInputs / kParts;
    static constexpr uint32_t kSteps = kPartInputs / 16;

    uint4 weights[kSteps];

    __device__ static uint32_t group() { return warp_of() % kGroups; }
    __device__ static uint32_t part() { return warp_of() / kGroups; }

    // Where this lane's weights begin. What warps without columns compute is not used.
    __device__ static const uint4* place_of(const Columns& columns) {
        const uint32_t of_layer =
            columns.first_group + (group() < columns.num_groups ? group() : 0);
        const uint32_t first =
            of_layer * columns.num_inputs + columns.first_input + part() * kPartInputs;
        return reinterpret_cast<const uint4*>(columns.weights) + first / 16 * kLanes + lane_of();
    }
    __device__ void load(const uint4* from) {
#pragma unroll
        for (uint32_t i = 0; i < kSteps; ++i) weights[i] = from[i * kLanes];
    }
    // Stores the warp's sums in its part; `load_next` loads the weights of the next step.
    template <typename LoadNext>
    __device__ void multiply(const __half* rows, uint32_t pitch, float* parts, LoadNext load_next) {
        float sums[kRows / 8][4] = {};
        // Four operands of 8 rows and 8 inputs: of 32 inputs of 8 rows, or of 16 of 16.
        constexpr uint32_t kTogether = 16 / kRows;
        const uint32_t operand = lane_of() / 8, first_row = kRows == 8 ? 0 : operand / 2 * 8;
        const auto at = static_cast<uint32_t>(
            __cvta_generic_to_shared(rows + (first_row + lane_of() % 8) * pitch +
                                     operand % (2 * kTogether) * 8 + part() * kPartInputs));
#pragma unroll
        for (uint32_t i = 0; i < kSteps; i += kTogether) {
            uint4 b;
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(b.x), "=r"(b.y), "=r"(b.z), "=r"(b.w)
                         : "r"(at + i * 32));
            const uint4 v = weights[i], w = weights[i + kTogether - 1];
            linear::multiply(sums[0], make_uint4(v.x, v.z, v.y, v.w), b.x, b.y);
            linear::multiply(sums[kRows / 8 - 1], make_uint4(w.x, w.z, w.y, w.w), b.z, b.w);
        }
        load_next();
        const uint32_t g = lane_of() / 4;
        float* to = parts + part() * kPartLen + lane_of() % 4 * 2 * kSumPitch +
                    group() * linear::kWarpColumns + g / 2 * 4 + g % 2;
#pragma unroll
        for (uint32_t m = 0; m < kRows / 8; ++m, to += 8 * kSumPitch) {
            to[0] = sums[m][0], to[kSumPitch] = sums[m][1];
            to[2] = sums[m][2], to[kSumPitch + 2] = sums[m][3];
        }
    }
};

}  // namespace detr3d_block

// Products of a chain's rows with weights that pass through a ring in shared memory: layer_chain.cuh.
#pragma once

#include "layer_chain.cuh"

namespace layer_chain {

// A thread block's place in its cluster, and the weights of its steps.
template <uint32_t kRows>
struct Products {
    using R = Ring<kRows>;
    static constexpr uint32_t kTiles = kRows / 8;

    const Args& args;
    Shared<kRows>& shared;
    uint32_t rank;
    uint32_t first_row;
    // The weights that are copied next: their step, and how many units of it are left.
    const uint4* source = nullptr;
    uint32_t source_step = 0;
    uint32_t num_left = 0;
    // The places in the ring that are copied to and read next.
    uint4* copy_place;
    const uint4* read_place;

    __device__ Products(const Args& args, Shared<kRows>& shared)
        : args(args), shared(shared), rank(cluster::rank()), first_row(blockIdx.x / kBlocks * kRows), copy_place(ring()), read_place(ring()) {}

    // Outputs of a thread block.
    __device__ static uint32_t num_columns(const Step& step) { return kWarpColumns << step.log_pairs; }
    __device__ static uint32_t num_units(const Step& step) { return step.num_inputs / 16 << step.log_pairs >> kLogWarps; }
    // Floats from a row of sums to the next.
    __device__ static uint32_t pitch_of(const Step& step) { return num_columns(step) + 4; }
    // All clusters have the rows of shared results.
    __device__ bool is_skipped(const Step& step) const { return step.target < kToAll && first_row >= step.num_rows; }
    __device__ uint4* ring() const { return shared.ring + warp_of() * R::kUnits * R::kQuads + lane_of(); }
    __device__ __half* place_of(uint32_t r, uint32_t column) const { return shared.rows + r * kPitch + column; }

    // Copies the next unit of this warp's weights. A lane reads what it has copied itself.
    __device__ void fetch() {
        while (num_left == 0 && source_step < args.num_steps) {
            const Step& step = shared.steps[source_step++];
            if (is_skipped(step)) continue;
            num_left = num_units(step);
            source = reinterpret_cast<const uint4*>(step.weights.data) + (rank * kWarps + warp_of()) * num_left * R::kQuads + lane_of();
        }
        if (num_left != 0) {
            linear::copy_async(copy_place, source);
            linear::copy_async(copy_place + kLanes, source + kLanes);
            source += R::kQuads;
            --num_left;
            copy_place += R::kQuads;
            if (copy_place == ring() + R::kUnits * R::kQuads) copy_place = ring();
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    }

    // Operands of a matrix instruction: of 32 columns and of the rows, 16 inputs.
    struct Operands {
        uint4 weights[2];
        uint2 rows[kTiles];
    };

    __device__ void load(Operands& to, uint32_t at) {
        to.weights[0] = read_place[0];
        to.weights[1] = read_place[kLanes];
        read_place += R::kQuads;
        if (read_place == ring() + R::kUnits * R::kQuads) read_place = ring();
#pragma unroll
        for (uint32_t t = 0; t < kTiles; t += 2) {
            const uint32_t from = at + t * 8 * kPitch * 2;
            if (t + 1 < kTiles) {
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                             : "=r"(to.rows[t].x), "=r"(to.rows[t].y), "=r"(to.rows[t + 1].x), "=r"(to.rows[t + 1].y)
                             : "r"(from));
            } else {
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(to.rows[t].x), "=r"(to.rows[t].y) : "r"(from));
            }
        }
    }
    __device__ static void multiply(float (&sums)[2][kTiles][4], const Operands& of) {
#pragma unroll
        for (uint32_t t = 0; t < kTiles; ++t) {
#pragma unroll
            for (uint32_t g = 0; g < 2; ++g) {
                linear::multiply(sums[g][t], of.weights[g], of.rows[t].x, of.rows[t].y);
            }
        }
    }

    // The products of this warp's columns with its part of the inputs, to its place in `parts`.
    __device__ void multiply(const Step& step) {
        const uint32_t part = warp_of() >> step.log_pairs, pair = warp_of() & ((1u << step.log_pairs) - 1);
        const uint32_t part_inputs = step.num_inputs << step.log_pairs >> kLogWarps;
        const uint32_t operand = lane_of() / 8;
        auto at = static_cast<uint32_t>(__cvta_generic_to_shared(
            place_of(operand / 2 * 8 + lane_of() % 8, step.input + part * part_inputs + operand % 2 * 8)));
        float sums[2][kTiles][4] = {};
        Operands even, odd;
        wait_for_units<R::kUnits - 1>();
        load(even, at);
        // Units are a multiple of two. The operands of one are loaded while those before are multiplied.
#pragma unroll 1
        for (uint32_t left = num_units(step); left != 0; left -= 2, at += 64) {
            wait_for_units<R::kUnits - 2>();
            load(odd, at + 32);
            multiply(sums, even);
            fetch();
            if (left != 2) {
                wait_for_units<R::kUnits - 2>();
                load(even, at + 64);
            }
            multiply(sums, odd);
            fetch();
        }
        // The second half of the warps adds to the first: a lane has four neighbouring columns of two rows.
        const uint32_t pitch = pitch_of(step);
        const bool is_second = warp_of() >= kWarps / 2;
        const uint32_t stored = part & ((kWarps / 2 >> step.log_pairs) - 1);
        float* to = shared.parts + (stored * kRows + lane_of() % 4 * 2) * pitch + pair * kWarpColumns + lane_of() / 4 * 4;
        if (!is_second) __syncthreads();
#pragma unroll
        for (uint32_t t = 0; t < kTiles; ++t) {
#pragma unroll
            for (uint32_t i = 0; i < 2; ++i) {
                auto* four = reinterpret_cast<float4*>(to + (t * 8 + i) * pitch);
                float4 v = make_float4(sums[0][t][i], sums[0][t][i + 2], sums[1][t][i], sums[1][t][i + 2]);
                if (!is_second) {
                    const float4 more = *four;
                    v.x += more.x, v.y += more.y, v.z += more.z, v.w += more.w;
                }
                *four = v;
            }
        }
        if (is_second) __syncthreads();
    }
    template <uint32_t kPending>
    __device__ static void wait_for_units() {
        asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
    }
};

}  // namespace layer_chain

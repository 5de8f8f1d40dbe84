// The steps of a chain: layer_chain.cuh. All steps run the same code, which is kept short: a loop that
// does not fit the instruction cache is fetched again with every step.
#pragma once

#include "layer_chain_products.cuh"

namespace layer_chain {

// A thread block of a cluster.
template <uint32_t kRows>
struct Chain : Products<kRows> {
    using P = Products<kRows>;
    using P::args;
    using P::first_output;
    using P::first_row;
    using P::is_skipped;
    using P::kSums;
    using P::place_of;
    using P::rank;
    using P::shared;
    // Rows that a thread block stores of results that all have.
    static constexpr uint32_t kOwnRows = kRows / kBlocks;
    // Rows of a warp that normalizes.
    static constexpr uint32_t kEach = (kRows + kRowWarps - 1) / kRowWarps;

    cluster::Inbox inbox;
    // From an address here to the same of the other thread blocks.
    uint32_t blocks[kBlocks];

    __device__ Chain(const Args& args, Shared<kRows>& shared) : P(args, shared), inbox(shared.inbox) {}

    // Copies rows, a warp a row: all warps but the last, or the first warpgroup.
    __device__ void load_rows(const Load& load, uint32_t num_warps) const {
        const uint32_t num_groups = 1u << (load.log_len - 8);
#pragma unroll 1
        for (uint32_t r = warp_of(); r < kRows; r += num_warps) {
            const bool exists = first_row + r < load.num_rows;
            const __half* from = load.rows.data + static_cast<uint64_t>(exists ? first_row + r : 0) * load.stride + lane_of() * row::kGroup;
            __half* to = place_of(r, load.column + lane_of() * row::kGroup);
            for (uint32_t i = 0; i < num_groups; ++i) {
                linear::copy_async(to + i * kLanes * P::S::kGroupLen, from + i * kChannels, exists);
            }
        }
    }
    // Rows that were begun to be copied are there, for matrix instructions as well, after the next
    // barrier of these threads.
    __device__ static void finish_loads() {
        linear::wait_for_copies();
        warpgroup::fence_stores();
    }
    // The first warpgroup has results for the warps that normalize, and these have finished the rows.
    __device__ static void pass_results() { asm volatile("bar.arrive 1, %0;" ::"n"(kWarps * kLanes) : "memory"); }
    __device__ static void await_results() { asm volatile("bar.sync 1, %0;" ::"n"(kWarps * kLanes) : "memory"); }
    __device__ static void pass_rows() { asm volatile("bar.arrive 2, %0;" ::"n"(kWarps * kLanes) : "memory"); }
    __device__ static void await_rows() { asm volatile("bar.sync 2, %0;" ::"n"(kWarps * kLanes) : "memory"); }

    // Results of a warp, 16 outputs from `output` on: of a lane output lane / 4 and + 8 of two neighbouring
    // rows of each 8.
    __device__ void finish(const Step& step, const float (&sums)[kSums], uint32_t output) const {
        if (step.target == kToAll || step.target == kToRows) return finish_groups(step, sums, output);
        if (step.target == kToAnchors) return refine(step, sums, output);
        const uint32_t row = first_row + lane_of() % 4 * 2, c = output + lane_of() / 4;
#pragma unroll
        for (uint32_t i = 0; i < kSums; i += 2) {
            const uint32_t r = row + i / 4 * 8, column = c + i % 4 / 2 * 8;
            if (step.target == kToColumns) {
                if (r >= step.stride) continue;
                const uint32_t words = row::pack(sums[i], sums[i + 1]);
                *reinterpret_cast<uint32_t*>(step.rows.data + static_cast<uint64_t>(column) * step.stride + r) = words;
            } else if (column < step.num_values) {
                float* to = step.values.data + static_cast<uint64_t>(r) * step.stride + column;
                if (r < step.num_rows) to[0] = sums[i];
                if (r + 1 < step.num_rows) to[step.stride] = sums[i + 1];
            }
        }
    }
    // Adds deltas to the anchors, of which all thread blocks have a copy.
    __device__ void refine(const Step& step, const float (&sums)[kSums], uint32_t output) const {
        if (output != 0) return;
        const float interval = args.interval.data[0];
        float values[kSums];
        const auto place = [&](uint32_t i) {
            const uint32_t c = lane_of() / 4 + i % 4 / 2 * 8, r = i / 4 * 8 + lane_of() % 4 * 2 + i % 2;
            return make_uint2(r, c);
        };
#pragma unroll
        for (uint32_t i = 0; i < kSums; ++i) {
            const uint2 at = place(i);
            values[i] = at.y < kBoxLen ? shared.anchors[at.x * kAnchorLen + at.y] : 0.0f;
        }
#pragma unroll
        for (uint32_t i = 0; i < kSums; ++i) {
            const uint2 at = place(i);
            values[i] += at.y >= args.first_divided ? __fdividef(sums[i], interval) : sums[i];
            if (at.y >= kBoxLen) continue;
            shared.anchors[at.x * kAnchorLen + at.y] = values[i];
            if (at.x / kOwnRows == rank && first_row + at.x < step.num_rows) {
                step.values.data[static_cast<uint64_t>(first_row + at.x) * step.stride + at.y] = values[i];
            }
        }
    }
    // Rows of f16, 8 outputs together: to all thread blocks or to device memory.
    __device__ void finish_groups(const Step& step, const float (&sums)[kSums], uint32_t output) const {
        __half* results = shared.results[warp_of()];
        const auto to = warpgroup::shared_address(results) + lane_of() % 16 / 8 * kRows * 16 + lane_of() % 8 * 16;
#pragma unroll
        for (uint32_t i = 0; i < kSums; i += 4) {
            asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1,%2};" ::"r"(to + i / 4 * 128),
                         "r"(row::pack(sums[i], sums[i + 1])), "r"(row::pack(sums[i + 2], sums[i + 3]))
                         : "memory");
        }
        __syncwarp();
#pragma unroll
        for (uint32_t i = 0; i < (2 * kRows + kLanes - 1) / kLanes; ++i) {
            const uint32_t at = i * kLanes + lane_of(), group = at < kRows ? 0 : 1, r = at - group * kRows;
            if (at >= 2 * kRows) continue;
            const uint4 words = reinterpret_cast<const uint4*>(results)[at];
            const uint32_t c = output + group * row::kGroup;
            if (step.target == kToAll) {
                const uint32_t address = warpgroup::shared_address(place_of(r, step.output + c));
#pragma unroll
                for (uint32_t block = 0; block < kBlocks; ++block) inbox.send_to(address, blocks[block], words);
            } else if (first_row + r < step.num_rows && c < step.num_values) {
                *reinterpret_cast<uint4*>(step.rows.data + static_cast<uint64_t>(first_row + r) * step.stride + c) = words;
            }
        }
        __syncwarp();
    }

    // The part of the encoder that this lane's channels belong to, and the part's lanes.
    __device__ uint32_t encoder_part() const {
        uint32_t part = 0;
#pragma unroll
        for (uint32_t i = 0; i + 1 < kParts; ++i) part += lane_of() >= args.encoder_ends[i];
        return part;
    }
    __device__ uint32_t encoder_lanes() const {
        const uint32_t part = encoder_part();
        return args.encoder_ends[part] - (part == 0 ? 0 : args.encoder_ends[part - 1]);
    }

    // Sums over this lane and its neighbours.
    __device__ static void sum_over(float (&sums)[kEach], uint32_t lanes) {
#pragma unroll
        for (uint32_t step = 1; step < kLanes; step *= 2) {
#pragma unroll
            for (uint32_t i = 0; i < kEach; ++i) {
                const float other = __shfl_xor_sync(kAllLanes, sums[i], step);
                if (step < lanes) sums[i] += other;
            }
        }
    }

    // A lane's factors and summands of a normalization of `kGroups` times 256 channels.
    template <uint32_t kGroups>
    struct Norm {
        float gamma[kGroups][row::kGroup], beta[kGroups][row::kGroup];

        // Here and not where they are used: they arrive while results are computed.
        __device__ void load(const float* from) {
#pragma unroll
            for (uint32_t group = 0; group < kGroups; ++group) {
                float* to[4] = {gamma[group], gamma[group] + 4, beta[group], beta[group] + 4};
#pragma unroll
                for (uint32_t i = 0; i < 4; ++i) {
                    asm volatile("ld.global.nc.v4.f32 {%0,%1,%2,%3}, [%4];"
                                 : "=f"(to[i][0]), "=f"(to[i][1]), "=f"(to[i][2]), "=f"(to[i][3])
                                 : "l"(from + (group * 4 + i) * kLanes * 4 + lane_of() * 4));
                }
            }
        }
    };

    __device__ static uint32_t row_of(uint32_t i) { return warp_of() - kFirstRowWarp + i * kRowWarps; }
    // A row that does not exist is the warp's first.
    __device__ __half* place_of_mine(uint32_t i, uint32_t column) const {
        return place_of(row_of(i) < kRows ? row_of(i) : row_of(0), column + lane_of() * row::kGroup);
    }

    // Waits for rows, then normalizes, stores and adds them, a warp two or three. A lane has 8 channels, of
    // 512 twice as many.
    template <uint32_t kGroups>
    __device__ void finish_rows(const After& after, bool is_encoder) {
        Norm<kGroups> norm;
        const bool has_norm = after.norm.len != 0;
        if (has_norm) norm.load(after.norm.data);
        const uint32_t lanes = after.norm_parts == 0 ? encoder_lanes() : kLanes;
        const float inverse = __fdividef(1.0f, static_cast<float>(lanes * kGroups * row::kGroup));
        float v[kEach][kGroups][row::kGroup];
        if (is_encoder) {
            encode(v);
        } else {
            await_results();
#pragma unroll
            for (uint32_t i = 0; i < kEach; ++i) {
#pragma unroll
                for (uint32_t group = 0; group < kGroups; ++group) row::load(place_of_mine(i, after.column + group * kChannels), v[i][group]);
            }
        }
        if (has_norm) {
            float mean[kEach], scale[kEach];
#pragma unroll
            for (uint32_t i = 0; i < kEach; ++i) {
                mean[i] = 0;
#pragma unroll
                for (uint32_t group = 0; group < kGroups; ++group) {
                    const float(&x)[row::kGroup] = v[i][group];
                    mean[i] += ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
                }
            }
            sum_over(mean, lanes);
#pragma unroll
            for (uint32_t i = 0; i < kEach; ++i) {
                mean[i] *= inverse, scale[i] = 0;
#pragma unroll
                for (uint32_t k = 0; k < kGroups * row::kGroup; ++k) {
                    const float d = v[i][k / row::kGroup][k % row::kGroup] - mean[i];
                    scale[i] = fmaf(d, d, scale[i]);
                }
            }
            sum_over(scale, lanes);
#pragma unroll
            for (uint32_t i = 0; i < kEach; ++i) {
                scale[i] = rsqrtf(fmaf(scale[i], inverse, args.epsilon));
#pragma unroll
                for (uint32_t k = 0; k < kGroups * row::kGroup; ++k) {
                    float& x = v[i][k / row::kGroup][k % row::kGroup];
                    x = fmaf((x - mean[i]) * scale[i], norm.gamma[k / row::kGroup][k % row::kGroup], norm.beta[k / row::kGroup][k % row::kGroup]);
                }
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < kEach; ++i) {
            if (row_of(i) >= kRows) continue;
            if (after.sum != 0) {
                float more[row::kGroup];
                row::load(place_of_mine(i, after.addend), more);
#pragma unroll
                for (uint32_t k = 0; k < row::kGroup; ++k) more[k] += v[i][0][k];
                row::store(more, place_of_mine(i, after.sum));
            }
            if (!has_norm) continue;
#pragma unroll
            for (uint32_t group = 0; group < kGroups; ++group) row::store(v[i][group], place_of_mine(i, after.column + group * kChannels));
        }
        warpgroup::fence_stores();
        pass_rows();
        if (after.rows.len == 0) return;
#pragma unroll
        for (uint32_t i = 0; i < kEach; ++i) {
            const uint32_t r = row_of(i);
            if (r / kOwnRows != rank || r >= kRows || first_row + r >= after.num_rows) continue;
            row::store(v[i][0], after.rows.data + static_cast<uint64_t>(first_row + r) * after.stride + lane_of() * row::kGroup);
        }
    }

    // The first layer of the encoder: the anchors in f32, ReLU.
    template <uint32_t kGroups>
    __device__ void encode(float (&v)[kEach][kGroups][row::kGroup]) const {
        const auto* weights = reinterpret_cast<const float4*>(args.encoder.data) + lane_of();
        float4 w[row::kGroup];
#pragma unroll
        for (uint32_t k = 0; k < row::kGroup; ++k) w[k] = weights[k * kLanes];
        // The parts read 3, 3, 2 and 3 values.
        const uint32_t part = encoder_part(), first = part * 3 - part / 3;
        await_results();
#pragma unroll
        for (uint32_t i = 0; i < kEach; ++i) {
            const float* anchor = shared.anchors + (row_of(i) < kRows ? row_of(i) : row_of(0)) * kAnchorLen + first;
            const float x = anchor[0], y = anchor[1], z = part == 2 ? 0.0f : anchor[2];
#pragma unroll
            for (uint32_t k = 0; k < row::kGroup; ++k) v[i][0][k] = row::relu(fmaf(z, w[k].z, fmaf(y, w[k].y, x * w[k].x)) + w[k].w);
        }
    }

    // The products of a step and their results.
    __device__ void run_layer(const Step& step, bool& is_waiting) {
        if (step.load != 0) load_rows(args.loads[step.load - 1], kFirstRowWarp);
        const uint32_t first = first_output(step) + warp_of() * 16;
#pragma unroll 1
        for (uint32_t tile = 0; tile < step.num_tiles; ++tile) {
            const uint32_t output = first + tile * kTileOutputs;
            // Loaded before they are needed.
            const float bias[2] = {step.bias.data[output + lane_of() / 4], step.bias.data[output + lane_of() / 4 + 8]};
            if (is_waiting) await_rows();
            is_waiting = false;
            float sums[kSums];
            P::multiply_tile(sums, step.input, step.num_inputs);
#pragma unroll
            for (uint32_t i = 0; i < kSums; ++i) {
                sums[i] += bias[i % 4 / 2];
                if (step.has_relu) sums[i] = row::relu(sums[i]);
            }
            finish(step, sums, output);
        }
        if (step.target != kToAll) return;
        inbox.receive(kRows * step.num_tiles * kTileOutputs * kBlocks * static_cast<uint32_t>(sizeof(__half)));
        warpgroup::fence_stores();
    }

    __device__ static bool has_rows(const Step& step) {
        const After& after = step.after;
        return step.target == kToEncode || (step.target == kToAll && after.norm.len + after.rows.len + after.sum != 0);
    }

    // All layers: by the first warpgroup. The number of steps is read from the parameters: with one from shared
    // memory the compiler does not know that all lanes are here, and products take half as long again.
    __device__ void run_layers() {
#pragma unroll
        for (uint32_t block = 0; block < kBlocks; ++block) blocks[block] = inbox.offset_of(block);
        bool is_waiting = false;
#pragma unroll 1
        for (uint32_t i = 0; i < args.num_steps; ++i) {
            const Step step = shared.steps[i];
            if (is_skipped(step)) continue;
            if (step.target != kToEncode) run_layer(step, is_waiting);
            if (!has_rows(step)) continue;
            if (is_waiting) await_rows();
            finish_loads();
            pass_results();
            is_waiting = true;
        }
    }
    // What follows their results: by the other warps.
    __device__ void run_rows() {
#pragma unroll 1
        for (uint32_t i = 0; i < args.num_steps; ++i) {
            const Step& step = shared.steps[i];
            if (!has_rows(step)) continue;
            const After after = step.after;
            if (after.norm_parts == 2) finish_rows<2>(after, false);
            else finish_rows<1>(after, step.target == kToEncode);
        }
    }

    // Copies the steps from the parameters.
    __device__ void copy_steps() const {
        constexpr uint32_t kQuads = sizeof(Args::steps) / 16;
        static_assert(kQuads <= kThreads && sizeof(Args::steps) % 16 == 0);
        if (threadIdx.x >= kQuads) return;
        uint4 v;
        asm volatile("ld.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                     : "l"(reinterpret_cast<const uint4*>(args.steps) + threadIdx.x));
        reinterpret_cast<uint4*>(shared.steps)[threadIdx.x] = v;
    }

    __device__ void run() {
        if (threadIdx.x == 0) inbox.init();
        P::init();
        cluster::arrive();
        copy_steps();
        __syncthreads();
        overlap::allow_next();
        if (warp_of() == kWarps) {
            if (lane_of() == 0) P::copy_weights();
            __syncwarp();
            return cluster::wait();
        }
        overlap::wait_for_earlier();
#pragma unroll 1
        for (uint32_t i = 0; i < args.num_loads; ++i) load_rows(args.loads[i], kWarps);
        if (args.anchors.len != 0) {
#pragma unroll 1
            for (uint32_t r = warp_of(); r < kRows; r += kWarps) {
                const bool exists = first_row + r < args.num_rows;
                if (lane_of() < kBoxLen) shared.anchors[r * kAnchorLen + lane_of()] = exists ? args.anchors.data[(first_row + r) * kBoxLen + lane_of()] : 0.0f;
            }
        }
        finish_loads();
        // The barriers of the other thread blocks exist.
        cluster::wait();
        asm volatile("bar.sync 1, %0;" ::"n"(kWarps * kLanes) : "memory");
        if (warp_of() < kFirstRowWarp) run_layers();
        else run_rows();
    }
};

}  // namespace layer_chain

// The layers of layer_stack_folded.cuh.
#pragma once

#include "view/layer_stack_folded.cuh"

namespace layer_stack_folded {

#if HAS_WARPGROUPS

__device__ inline void load_matrices(uint32_t (&to)[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
}

// Sums and sums of squares of 8 rows. Of a lane the first two sums are products of the row lane / 4
// with the rows 2 (lane % 4) and + 1, the others sums of these.
struct Moments {
    float sums[2][4] = {};

    __device__ void add(uint32_t part, uint32_t b0, uint32_t b1) {
        constexpr uint32_t kOnes = 0x3c003c00u;
        linear::multiply(sums[part], make_uint4(b0, kOnes, b1, kOnes), b0, b1);
    }
    __device__ float sum(uint32_t i) const { return sums[0][i] + sums[1][i]; }
    // Of the rows 2 (lane % 4) and + 1.
    __device__ void finish(float inverse, float epsilon, float (&mean)[2],
                           float (&scale)[2]) const {
#pragma unroll
        for (uint32_t i = 0; i < 2; ++i) {
            mean[i] = sum(2 + i) * inverse;
            const float square =
                __shfl_sync(kAllLanes, sum(i), lane_of() % 4 * 9 + 4 * i) * inverse;
            scale[i] = rsqrtf(fmaxf(fmaf(-mean[i], mean[i], square), 0.0f) + epsilon);
        }
    }
};

// A warp of outputs.
struct Stack {
    // Of each group outputs lane / 4 of the rows 2 (lane % 4) and + 1, then outputs lane / 4 + 8.
    using Results = float[kGroups][4];
    // What warps have of values, in the rows' other buffer.
    struct Partial {
        float sums[kWarps][kBoxLen][kRows];
        float2 moments[kWarps][kRows];
    };
    static constexpr uint32_t kBufferBytes = sizeof(Shared::rows) / 2;
    static_assert(sizeof(Partial) <= kBufferBytes);

    const Args& args;
    Shared& shared;
    const uint32_t warp;
    const uint32_t first_row;
    Weights weights;
    const float4* constants;

    __device__ Stack(const Args& args, Shared& shared, uint32_t warp)
        : args(args),
          shared(shared),
          warp(warp),
          first_row(blockIdx.x * kRows),
          weights(args, shared, warp),
          constants(shared.constants[warp].layers[0][0]) {}

    // Named barriers want whole warps: lanes that have waited for copies may be apart.
    __device__ static void synchronize(const Job& job, uint32_t index) {
        __syncwarp();
        asm volatile("bar.sync %0, %1;" ::"r"(index + 1), "r"(job.num_warps * kLanes) : "memory");
    }
    __device__ static void await_input() {
        __syncwarp();
        asm volatile("bar.sync 7, %0;" ::"n"(kThreads) : "memory");
    }
    __device__ static void await_boxes() {
        __syncwarp();
        asm volatile("bar.sync 6, %0;" ::"n"(kWarps * kLanes) : "memory");
    }

    // The first layer of a job over columns: a lane has a channel.
    __device__ void encode(const Job& job) const {
        const float4 w = shared.constants[warp].first[lane_of()];
        const float* x = &shared.boxes[0][job.first_column];
        const bool has_third = job.num_columns == kMaxColumns;
#pragma unroll
        for (uint32_t r = 0; r < kRows; ++r, x += kBoxLen) {
            const float sum = fmaf(has_third ? x[2] : 0.0f, w.z, fmaf(x[1], w.y, x[0] * w.x));
            shared.rows[0][r][warp * kWidth + lane_of()] = __float2half_rn(row::relu(sum + w.w));
        }
    }

    // Stores a warp's results in the rows of a buffer.
    __device__ void store(const Results& v, uint32_t buffer) const {
        const uint32_t to = warpgroup::shared_address(
            &shared.rows[buffer][lane_of() % 8][warp * kWidth + lane_of() / 8 * 8]);
        asm volatile(
            "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(to),
            "r"(row::pack(v[0][0], v[0][1])), "r"(row::pack(v[0][2], v[0][3])),
            "r"(row::pack(v[1][0], v[1][1])), "r"(row::pack(v[1][2], v[1][3]))
            : "memory");
    }
    // To device memory, by way of a buffer.
    __device__ void store_output(const Job& job, const Results& v, uint32_t buffer) const {
        store(v, buffer);
        __syncwarp();
        const uint32_t r = lane_of() / 4,
                       c = (warp - job.first_warp) * kWidth + lane_of() % 4 * row::kGroup;
        if (first_row + r >= args.num_rows || c >= job.num_values) return;
        *reinterpret_cast<uint4*>(job.output.data +
                                  static_cast<uint64_t>(first_row + r) * job.output_stride + c) =
            *reinterpret_cast<const uint4*>(
                &shared.rows[buffer][r][warp * kWidth + lane_of() % 4 * row::kGroup]);
    }

    // The last layer of a job over rows, at most 12 outputs: a warp multiplies 32 inputs, and adds
    // a part of the sums.
    __device__ void run_values(const Job& job, const Layer& layer, uint32_t buffer,
                               float interval) {
        Partial& partial = *reinterpret_cast<Partial*>(&shared.rows[buffer ^ 1]);
        const uint32_t lane = lane_of(), g = lane / 4, t = lane % 4;
        if (warp < layer.num_warps) {
            uint32_t b[4];
            load_matrices(b, warpgroup::shared_address(
                                 &shared.rows[buffer][lane % 8][warp * kWidth + lane / 8 * 8]));
            float sums[4] = {};
            Moments moments;
#pragma unroll
            for (uint32_t i = 0; i < kGroups; ++i) {
                const uint4& w = weights.steps[0][i];
                linear::multiply(sums, w, b[2 * i], b[2 * i + 1]);
                moments.add(i, b[2 * i], b[2 * i + 1]);
            }
            *reinterpret_cast<float2*>(&partial.sums[warp][g][2 * t]) =
                make_float2(sums[0], sums[1]);
            if (g + 8 < kBoxLen)
                *reinterpret_cast<float2*>(&partial.sums[warp][g + 8][2 * t]) =
                    make_float2(sums[2], sums[3]);
            if (g / 2 == t)
                partial.moments[warp][g] = g % 2 == 0 ? make_float2(moments.sum(2), moments.sum(0))
                                                      : make_float2(moments.sum(3), moments.sum(1));
            const uint32_t next = weights.next_steps();
#pragma unroll
            for (uint32_t i = 0; i < kMaxSteps / kChunkSteps; ++i) {
                weights.take(i, next);
                weights.refill(i);
            }
        }
        await_boxes();
        const uint32_t r = lane % 8, c = threadIdx.x / 8;
        if (c >= job.num_values) return;
        float sum = 0.0f;
        float2 m = {};
#pragma unroll
        for (uint32_t i = 0; i < kWarps; ++i) {
            if (i >= layer.num_warps) break;
            const float2 other = partial.moments[i][r];
            sum += partial.sums[i][c][r], m.x += other.x, m.y += other.y;
        }
        const float* constant = reinterpret_cast<const float*>(constants + c % 8) + c / 8;
        float value = sum + constant[0];
        if (layer.inverse_len != 0.0f) {
            const float mean = m.x * layer.inverse_len;
            const float scale =
                rsqrtf(fmaxf(fmaf(-mean, mean, m.y * layer.inverse_len), 0.0f) + args.epsilon);
            value = fmaf(fmaf(-mean, constant[2], sum), scale, constant[0]);
        }
        if (layer.has_relu) value = row::relu(value);
        if (c >= job.first_divided) value = __fdividef(value, interval);
        value += shared.boxes[r][c];
        shared.boxes[r][c] = value;
        if (first_row + r < args.num_rows)
            job.values.data[static_cast<uint64_t>(first_row + r) * job.output_stride + c] = value;
    }

    // Operands of four steps.
    struct Operands {
        uint32_t b[2][4];

        // Two steps twice where there are no others: other warps write what follows them.
        __device__ void load(uint32_t at, bool has_four) {
            load_matrices(b[0], at), load_matrices(b[1], has_four ? at + 64 : at);
        }
        __device__ uint32_t first(uint32_t k) const { return b[k / 2][k % 2 * 2]; }
        __device__ uint32_t second(uint32_t k) const { return b[k / 2][k % 2 * 2 + 1]; }
    };
    // Calls f(step, b0, b1) for the steps of rows from `four` on, four or two.
    template <typename F>
    __device__ static void for_four(uint32_t at, uint32_t four, uint32_t num_steps, F f) {
        Operands operands;
        operands.load(at + four * 32, four + 2 < num_steps);
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) {
            if (k == 2 && four + k >= num_steps) break;
            f(four + k, operands.first(k), operands.second(k));
        }
    }

    // The layers of a job.
    __device__ void run_job(uint32_t job_index, bool is_first, float interval) {
        const Job& job = args.jobs[job_index];
        const bool has_rows = job_index < args.num_row_jobs;
        const uint32_t own = warp - job.first_warp;
        const uint32_t operands = warpgroup::shared_address(
            &shared.rows[0][lane_of() % 8][job.first_warp * kWidth + lane_of() / 8 * 8]);
        uint32_t buffer = 0;
#pragma unroll 1
        for (uint32_t index = 0; index < job.num_layers; ++index, buffer ^= 1) {
            const Layer layer = job.layers[index];
            const bool is_last = index + 1 == job.num_layers;
            if (index == 0) {
                if (is_first) await_input();
                if (!has_rows) encode(job);
            }
            if (index != 0 || !has_rows) synchronize(job, job_index);
            if (is_last && job.output.len == 0) {
                run_values(job, layer, buffer, interval);
                constants += kGroups * 8;
                return;
            }
            if (own >= layer.num_warps) {
                if (is_last && job.last.num_steps != 0) synchronize(job, job_index);
                continue;
            }
            float sums[2][kGroups][4] = {};
            Moments moments;
            const bool has_norm = layer.inverse_len != 0.0f;
            const uint32_t num_steps = layer.num_steps, next = weights.next_steps();
            const uint32_t at = operands + buffer * kBufferBytes;
#pragma unroll
            for (uint32_t chunk = 0; chunk < kMaxSteps / kChunkSteps; ++chunk) {
#pragma unroll
                for (uint32_t four = chunk * kChunkSteps; four < (chunk + 1) * kChunkSteps;
                     four += 4) {
                    if (four >= num_steps) break;
                    for_four(at, four, num_steps, [&](uint32_t k, uint32_t b0, uint32_t b1) {
#pragma unroll
                        for (uint32_t g = 0; g < kGroups; ++g)
                            linear::multiply(sums[k % 2][g], weights.steps[k][g], b0, b1);
                        if (has_norm) moments.add(k % 2, b0, b1);
                    });
                }
                if (chunk != 0 && next > chunk * kChunkSteps) weights.refill(chunk - 1);
                weights.take(chunk, next);
            }
            float4 c[kGroups];
#pragma unroll
            for (uint32_t g = 0; g < kGroups; ++g) c[g] = constants[g * 8 + lane_of() / 4];
            constants += kGroups * 8;
            float mean[2] = {0, 0}, scale[2] = {1, 1};
            if (has_norm) moments.finish(layer.inverse_len, args.epsilon, mean, scale);
            Results v;
#pragma unroll
            for (uint32_t i = 0; i < kGroups * 4; ++i) {
                const uint32_t g = i / 4, k = i % 4;
                float& value = v[g][k];
                value =
                    fmaf(fmaf(-mean[k % 2], k < 2 ? c[g].z : c[g].w, sums[0][g][k] + sums[1][g][k]),
                         scale[k % 2], k < 2 ? c[g].x : c[g].y);
                if (layer.has_relu) value = row::relu(value);
            }
            if (!is_last) {
                store(v, buffer ^ 1);
                if (next > kChunkSteps)
                    weights.refill(1);
                else
                    weights.refill(0);
                continue;
            }
            if (job.last.num_steps != 0) {
                store(v, buffer ^ 1);
                synchronize(job, job_index);
                Moments last;
#pragma unroll
                for (uint32_t four = 0; four < kMaxSteps; four += 4) {
                    if (four >= job.last.num_steps) break;
                    for_four(
                        operands + (buffer ^ 1) * kBufferBytes, four, job.last.num_steps,
                        [&](uint32_t k, uint32_t b0, uint32_t b1) { last.add(k % 2, b0, b1); });
                }
                last.finish(job.last.inverse_len, args.epsilon, mean, scale);
#pragma unroll
                for (uint32_t g = 0; g < kGroups; ++g) c[g] = constants[g * 8 + lane_of() / 4];
#pragma unroll
                for (uint32_t i = 0; i < kGroups * 4; ++i) {
                    const uint32_t g = i / 4, k = i % 4;
                    v[g][k] = fmaf((v[g][k] - mean[k % 2]) * scale[k % 2], k < 2 ? c[g].z : c[g].w,
                                   k < 2 ? c[g].x : c[g].y);
                }
            }
            // Other warps may still read the inputs of the last layer; those of the layer before
            // are read.
            store_output(job, v, job.last.num_steps != 0 ? buffer : buffer ^ 1);
        }
    }

    __device__ void run() {
        const bool has_rows = args.num_row_jobs != 0;
        // The warp's job over columns.
        uint32_t index = args.num_row_jobs;
        while (index < args.num_jobs &&
               warp >= args.jobs[index].first_warp + args.jobs[index].num_warps)
            ++index;
        const Slice<const float>& of_interval = args.jobs[blockIdx.y].interval;
        const float interval = has_rows && of_interval.len != 0 ? of_interval.data[0] : 1.0f;
        const uint32_t num_steps = weights.next_steps();
#pragma unroll
        for (uint32_t i = 0; i < kMaxSteps / kChunkSteps; ++i) {
            weights.take(i, num_steps);
            weights.refill(i);
        }
        wait(weights.full + 8 * kChunks, 0);
        if (!has_rows && index >= args.num_jobs) return await_input();
        bool is_first = true;
#pragma unroll 1
        for (uint32_t i = has_rows ? blockIdx.y : index;;) {
            run_job(i, is_first, interval);
            if (!is_first || args.num_jobs == args.num_row_jobs || !has_rows) return;
            is_first = false;
            await_boxes();
            if (index >= args.num_jobs) return;
            i = index;
        }
    }
};

// A warp that brings rows.
struct Input {
    static constexpr uint32_t kEach = kRows / kRowWarps;

    const Args& args;
    Shared& shared;
    const uint32_t first;      // row of the block
    const uint32_t first_row;  // in device memory

    __device__ Input(const Args& args, Shared& shared, uint32_t warp)
        : args(args),
          shared(shared),
          first((warp - kWarps) * kEach),
          first_row(blockIdx.x * kRows + first) {}

    __device__ static void pass() {
        __syncwarp();
        asm volatile("bar.arrive 7, %0;" ::"n"(kThreads) : "memory");
    }
    // Rows of f32 to the boxes; zeros if there are none.
    __device__ void load_boxes(const Slice<const float>& from, uint32_t stride, uint32_t num,
                               uint32_t to) const {
        const uint32_t c = lane_of() % 16, r = lane_of() / 16;
        static_assert(kEach == kLanes / 16);
        if (c >= num) return;
        const bool exists = from.len != 0 && first_row + r < args.num_rows;
        shared.boxes[first + r][to + c] =
            exists ? from.data[static_cast<uint64_t>(first_row + r) * stride + c] : 0.0f;
    }
    __device__ void bring_columns() const {
        pdl::wait();
#pragma unroll 1
        for (uint32_t i = 0; i < args.num_jobs; ++i) {
            const Job& job = args.jobs[i];
            load_boxes(job.columns, job.column_stride, job.num_columns, job.first_column);
        }
        pass();
    }
    __device__ void bring_rows() {
        const Job& job = args.jobs[blockIdx.y];
        const uint32_t column = lane_of() * row::kGroup;
        const bool has_column = column < job.row_len, has_norm = job.norm.len != 0;
        float gamma[row::kGroup] = {}, beta[row::kGroup] = {};
        if (has_norm && has_column) {
            row::load(job.norm.data + column, gamma);
            row::load(job.norm.data + job.row_len + column, beta);
        }
        const float inverse = __fdividef(1.0f, static_cast<float>(job.row_len));
        pdl::wait();
        row::Raw<__half> raw[kEach], more[kEach];
#pragma unroll
        for (uint32_t r = 0; r < kEach; ++r) {
            raw[r].clear(), more[r].clear();
            if (first_row + r >= args.num_rows || !has_column) continue;
            raw[r].load(job.rows.data + static_cast<uint64_t>(first_row + r) * job.row_stride +
                        column);
            if (job.addend.len != 0)
                more[r].load(job.addend.data +
                             static_cast<uint64_t>(first_row + r) * job.addend_stride + column);
        }
        load_boxes(job.summand, job.output_stride, job.num_values, 0);
        float mean[kEach] = {}, scale[kEach] = {};
#pragma unroll
        for (uint32_t r = 0; r < kEach; ++r) {
            float v[row::kGroup];
            raw[r].unpack(v);
#pragma unroll
            for (uint32_t k = 0; k < row::kGroup; ++k)
                mean[r] += v[k], scale[r] = fmaf(v[k], v[k], scale[r]);
        }
#pragma unroll
        for (uint32_t step = 1; step < kLanes; step *= 2) {
#pragma unroll
            for (uint32_t r = 0; r < kEach; ++r) {
                mean[r] += __shfl_xor_sync(kAllLanes, mean[r], step),
                    scale[r] += __shfl_xor_sync(kAllLanes, scale[r], step);
            }
        }
#pragma unroll
        for (uint32_t r = 0; r < kEach; ++r) {
            float v[row::kGroup], a[row::kGroup];
            raw[r].unpack(v), more[r].unpack(a);
            if (has_norm) {
                mean[r] *= inverse;
                scale[r] =
                    rsqrtf(fmaxf(fmaf(-mean[r], mean[r], scale[r] * inverse), 0.0f) + args.epsilon);
#pragma unroll
                for (uint32_t k = 0; k < row::kGroup; ++k)
                    v[k] = fmaf((v[k] - mean[r]) * scale[r], gamma[k], beta[k]);
                raw[r].words = make_uint4(row::pack(v[0], v[1]), row::pack(v[2], v[3]),
                                          row::pack(v[4], v[5]), row::pack(v[6], v[7]));
                raw[r].unpack(v);
            }
#pragma unroll
            for (uint32_t k = 0; k < row::kGroup; ++k) v[k] += a[k];
            if (has_column) row::store(v, &shared.rows[0][first + r][column]);
        }
        pass();
        if (job.normalized.len == 0 || !has_column) return;
#pragma unroll
        for (uint32_t r = 0; r < kEach; ++r) {
            if (first_row + r >= args.num_rows) return;
            *reinterpret_cast<uint4*>(job.normalized.data +
                                      static_cast<uint64_t>(first_row + r) * job.normalized_stride +
                                      column) = raw[r].words;
        }
    }
};

__device__ inline void run(const Args& args, Shared& shared) {
    pdl::trigger();
    const uint32_t warp =
        __shfl_sync(kAllLanes, warp_of(), 0);  // the same in all lanes, as the compiler knows
    if (warp >= kWarps) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 72;");
        Input input(args, shared, warp);
        if (args.num_row_jobs != 0)
            input.bring_rows();
        else
            input.bring_columns();
        return;
    }
    Stack stack(args, shared, warp);
    asm volatile("setmaxnreg.inc.sync.aligned.u32 216;");
    stack.run();
}

#endif

}  // namespace layer_stack_folded

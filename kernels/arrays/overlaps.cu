// Overlaps of boxes and points in boxes as matrices: crates/ops/src/arrays/overlaps/mod.rs.
//
//   overlaps   a thread per pair of boxes
//   points     a thread per point: a row of the matrix, or its first box

#include "nms/rectangle.cuh"

namespace box_overlaps {

constexpr uint32_t kThreads = 256;

// Measures, as in Rust: crates/ops/src/arrays/overlaps/kernels.rs.
constexpr uint32_t kIou = 1;
constexpr uint32_t kIof = 2;

// The structs in Rust: crates/ops/src/arrays/overlaps/kernels.rs.
struct OverlapArgs {
    Slice<const float> first;   // rows of a kind of boxes
    Slice<const float> second;  // as well
    Slice<float> overlaps;      // by first and second box, or by row
    uint32_t num_second;        // boxes that each first one is compared with; 0: the one of its row
    uint32_t measure;
    float offset;  // of aligned boxes
    uint32_t reserved;
};

struct PointArgs {
    Slice<const float> points;  // x, y, z
    Slice<const float> boxes;   // centre, length, width, height, yaw
    Slice<int32_t> in_boxes;    // by point and box; may be empty
    Slice<int32_t> first_box;   // by point; may be empty
};

// The parts of a measure: of the intersection, of the first and of the second box.
struct Parts {
    float shared, first, second;
};

__device__ inline float measured(const OverlapArgs& args, const Parts& parts) {
    if (args.measure == kIou) return over_union(parts.shared, parts.first, parts.second);
    if (args.measure == kIof) return ratio(parts.shared, parts.first);
    return parts.shared;
}

struct Aligned {
    static constexpr uint32_t kColumns = 4;
    __device__ static Parts parts(const OverlapArgs& args, const float* a, const float* b) {
        const float4 first = make_float4(a[0], a[1], a[2], a[3]);
        const float4 second = make_float4(b[0], b[1], b[2], b[3]);
        return {box_intersection(first, second, args.offset), box_area(first, args.offset),
                box_area(second, args.offset)};
    }
};

struct Rotated {
    static constexpr uint32_t kColumns = 5;
    __device__ static Parts parts(const OverlapArgs&, const float* a, const float* b) {
        const Rectangle first = make_rectangle(a[0], a[1], a[2], a[3], a[4]);
        const Rectangle second = make_rectangle(b[0], b[1], b[2], b[3], b[4]);
        return {intersection(first, second), first.area, second.area};
    }
};

struct InSpace {
    static constexpr uint32_t kColumns = 7;
    __device__ static Parts parts(const OverlapArgs&, const float* a, const float* b) {
        const Rectangle first = make_rectangle(a[0], a[1], a[3], a[4], a[6]);
        const Rectangle second = make_rectangle(b[0], b[1], b[3], b[4], b[6]);
        const float first_height = fmaxf(a[5], 0.0f);
        const float second_height = fmaxf(b[5], 0.0f);
        const float first_half = first_height * 0.5f;
        const float second_half = second_height * 0.5f;
        Parts found = {0.0f, first.area * first_height, second.area * second_height};
        const float vertical = extent(fmaxf(a[2] - first_half, b[2] - second_half),
                                      fminf(a[2] + first_half, b[2] + second_half), 0.0f);
        if (vertical != 0.0f) {
            const float area = intersection(first, second);
            found.shared = fminf(fminf(area * vertical, found.first), found.second);
        }
        return found;
    }
};

template <typename Boxes>
__device__ inline void write_overlaps(const OverlapArgs& args) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (at >= args.overlaps.len) return;
    const uint64_t a = args.num_second == 0 ? at : at / args.num_second;
    const uint64_t b = args.num_second == 0 ? at : at % args.num_second;
    const float* first = &args.first[a * Boxes::kColumns];
    const float* second = &args.second[b * Boxes::kColumns];
    args.overlaps[at] = measured(args, Boxes::parts(args, first, second));
}

// Strictly between the sides, and not above or below.
__device__ inline bool is_inside(const float* point, const float* box) {
    float sin, cos;
    sin_cos(box[6], sin, cos);
    const float dx = point[0] - box[0];
    const float dy = point[1] - box[1];
    const float dz = point[2] - box[2];
    const float along = cos * dx + sin * dy;
    const float across = cos * dy - sin * dx;
    return fabsf(dz) <= box[5] * 0.5f && fabsf(along) < box[3] * 0.5f &&
           fabsf(across) < box[4] * 0.5f;
}

}  // namespace box_overlaps

#define BOX_OVERLAPS(Boxes, suffix)                                                     \
    extern "C" __global__ void __launch_bounds__(box_overlaps::kThreads)                \
        box_overlaps_##suffix(const __grid_constant__ box_overlaps::OverlapArgs args) { \
        box_overlaps::write_overlaps<box_overlaps::Boxes>(args);                        \
    }

BOX_OVERLAPS(Aligned, aligned)
BOX_OVERLAPS(Rotated, rotated)
BOX_OVERLAPS(InSpace, in_space)

extern "C" __global__ void __launch_bounds__(box_overlaps::kThreads)
    box_overlaps_points(const __grid_constant__ box_overlaps::PointArgs args) {
    const uint64_t point = static_cast<uint64_t>(blockIdx.x) * box_overlaps::kThreads + threadIdx.x;
    if (point >= args.points.len / 3) return;
    const uint64_t num_boxes = args.boxes.len / 7;
    const bool has_all = args.in_boxes.len != 0;
    int32_t first = -1;
    for (uint64_t box = 0; box < num_boxes; ++box) {
        const bool is_in = box_overlaps::is_inside(&args.points[3 * point], &args.boxes[7 * box]);
        if (has_all) args.in_boxes[point * num_boxes + box] = is_in ? 1 : 0;
        if (is_in && first < 0) {
            first = static_cast<int32_t>(box);
            if (!has_all) break;
        }
    }
    if (args.first_box.len != 0) args.first_box[point] = first;
}

// Decodes YOLO heads, crates/ops/src/decode/yolo/mod.rs, and selects the best candidates,
// crates/ops/src/decode/select/mod.rs, in one kernel. Blocks read their rows and append candidates
// by select.cuh; the headers hold one family of layouts each.

#include "decode/yolo_final.cuh"
#include "decode/yolo_planes.cuh"
#include "decode/yolo_rows.cuh"

// decode_yolo_<layout>_f32 and _f16, by the layouts below: decode_yolo_rows_f32, and so on.
#define DECODE_YOLO_KERNEL_OF(Candidate, layout, T, suffix, decode)                              \
    extern "C" __global__ void __launch_bounds__(yolo::kThreads, 4)                              \
        decode_yolo_##layout##_##suffix(const __grid_constant__ yolo::Args<T, Candidate> args) { \
        yolo::decode(args);                                                                      \
    }

#define DECODE_YOLO_KERNEL(layout, T, suffix, decode) \
    DECODE_YOLO_KERNEL_OF(Candidate2d, layout, T, suffix, decode)

#define DECODE_YOLO_KERNELS(T, suffix)                                                           \
    DECODE_YOLO_KERNEL(rows, T, suffix, decode_rows<yolo::Rows<T>>)                              \
    DECODE_YOLO_KERNEL(cells, T, suffix, decode_rows<yolo::Cells<T>>)                            \
    DECODE_YOLO_KERNEL(raw, T, suffix, decode_rows<yolo::Raw<T>>)                                \
    DECODE_YOLO_KERNEL(planes, T, suffix, decode_planes<yolo::AlignedColumns>)                   \
    DECODE_YOLO_KERNEL_OF(CandidateRotated, obb, T, suffix, decode_planes<yolo::RotatedColumns>) \
    DECODE_YOLO_KERNEL(end_to_end, T, suffix, decode_end_to_end)                                 \
    DECODE_YOLO_KERNEL_OF(CandidateRotated, obb_end_to_end, T, suffix, decode_obb_end_to_end)    \
    DECODE_YOLO_KERNEL(detr, T, suffix, decode_detr)                                             \
    DECODE_YOLO_KERNEL(detr_classes, T, suffix, decode_detr_classes)                             \
    DECODE_YOLO_KERNEL(detr_labels, T, suffix, decode_detr_labels)

DECODE_YOLO_KERNELS(float, f32)
DECODE_YOLO_KERNELS(__half, f16)

// One-pass suppression by IoU of upright boxes: src/ops/nms_fast/mod.rs.

#include "aligned_box.cuh"
#include "nms.cuh"

NMS_KERNELS(nms_fast, AlignedBoxes<true>)

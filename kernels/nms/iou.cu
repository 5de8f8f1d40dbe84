// Greedy suppression by IoU of axis-aligned boxes: crates/ops/src/nms/iou/mod.rs.

#include "nms/aligned_box.cuh"
#include "nms/nms.cuh"

NMS_KERNELS(nms_iou, AlignedBoxes<false>)

// Greedy suppression by IoU of axis-aligned boxes: src/ops/nms_iou/mod.rs.

#include "nms/aligned_box.cuh"
#include "nms/nms.cuh"

NMS_KERNELS(nms_iou, AlignedBoxes<false>)

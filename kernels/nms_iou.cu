// Greedy suppression by IoU of upright boxes: src/ops/nms_iou/mod.rs.

#include "flat.cuh"
#include "nms.cuh"

NMS_KERNELS(nms_iou, Flats<false>)

//! nms_iou_3d

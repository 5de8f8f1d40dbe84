//! nms_iou

//! nms_bev

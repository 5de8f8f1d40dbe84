//! decode_yolo

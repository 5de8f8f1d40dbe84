//! decode_center

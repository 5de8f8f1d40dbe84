//! decode_anchor

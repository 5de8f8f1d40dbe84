//! The det_post program.

fn main() {}

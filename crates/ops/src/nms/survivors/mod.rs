//! The candidates that a suppression keeps, as the candidates of the next one.
//!
//! The output has the order of `keep`: best first. Nothing is computed; box, class,
//! source and score are those of the candidate, so that the score of a suppression that
//! lowers scores is not taken over. Indices beyond the candidates are left out on the CPU;
//! on the device there are none, as the list is a suppression's. Equal on every device.

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;

use det_post_types::{Candidate, Kept};

/// Replaces the contents of `out` by the kept candidates. Nothing is allocated if it has
/// the capacity.
pub fn survivors<B: Copy>(candidates: &[Candidate<B>], keep: &[Kept], out: &mut Vec<Candidate<B>>) {
    out.clear();
    out.extend(keep.iter().filter_map(|kept| candidates.get(kept.index as usize)).copied());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_the_list() {
        let candidates = [0_u32, 1, 2].map(|source| Candidate {
            bbox: 10 * source,
            score: 0.1 * source as f32,
            class: source,
            source,
        });
        let kept = |index| Kept { index, score: 0.5 };
        let mut out = vec![candidates[1]; 5];
        survivors(&candidates, &[kept(2), kept(0), kept(7)], &mut out);
        assert_eq!(out, [candidates[2], candidates[0]]);
        survivors(&candidates, &[], &mut out);
        assert!(out.is_empty());
    }
}

//! The meaning of the outputs of StreamPETR.

use super::view_decoder::QueryDecode;

/// How the outputs of StreamPETR become boxes (`ops::decode_streampetr`).
#[derive(Clone, Debug, PartialEq)]
pub struct StreamPetrDecode {
    /// Whether the numbers of a query are adjacent, `[.., K, C]`, or its queries are,
    /// `[.., C, K]`.
    pub channels_last: bool,
    /// How the ten numbers of a query become a box.
    pub query: QueryDecode,
}

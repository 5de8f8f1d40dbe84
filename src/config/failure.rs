//! What a channel does when its GPU fails.

use super::declaration::Change::Fixed;
use super::reader::Reader;
use super::surround::SurroundDecoder;
use super::value::{above, integer, one_of, seconds};
use det_post_types::{FailurePolicy, Fallback, ViewPrecision};

const FALLBACKS: &[(&str, Fallback)] = &[("none", Fallback::None), ("cpu", Fallback::Cpu)];

/// Reads the policy. `decoder` is the network of a surround channel between its maps and boxes.
pub(super) fn failure_policy(
    p: &mut Reader<'_>,
    decoder: Option<&SurroundDecoder>,
) -> FailurePolicy {
    let policy = FailurePolicy {
        fallback: p.value(
            "fallback",
            Fixed,
            one_of(FALLBACKS),
            "none",
            "After the GPU is lost to the process or has failed `max_failures` times. `none`: \
             frames are dropped, in the second case until failures leave the window. `cpu`: the \
             channel continues there.",
        ),
        max_failures: p.value(
            "max_failures",
            Fixed,
            integer(1..=1000),
            3,
            "GPU failures within `failure_window_s` that are too many. Each builds the \
             pipeline again.",
        ),
        window: seconds(p.value(
            "failure_window_s",
            Fixed,
            above(0.0, 86_400.0).in_unit("s"),
            60.0,
            "How long a failure counts.",
        )),
    };
    if policy.fallback == Fallback::Cpu
        && let Some(SurroundDecoder::Views { precision: ViewPrecision::F16, .. }) = decoder
    {
        let allowed = "none with decoder.precision f16, which the CPU does not have";
        p.conflict(&["fallback", "decoder.precision"], "cpu", allowed);
    }
    policy
}

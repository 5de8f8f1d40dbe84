//! Operators whose patterns rten joins to others that compute something else.

use super::{Place, Rule, Verdict, integers_node, refused};
use det_post_types::Result;

pub(in super::super) const EXPAND: Rule = Rule {
    text: "Unsqueeze and Squeeze follow: rten takes a Reshape of it for repeats of elements; refused: a shape of fewer \
           dimensions than the input",
    apply: |place| {
        let num = place.shape(1).and_then(|shape| shape.first().copied().flatten());
        if let (Some(rank), Some(num)) = (place.rank(0), num)
            && num < rank as i64
        {
            return refused(format!("a shape of {num} dimensions for an input of {rank}"));
        }
        // The second look sees what the first one wrote.
        if place.checker.with_shapes {
            return Ok(Verdict::Computed);
        }
        let Some(output) = place.output(0) else { return refused("without an output") };
        let [axes, wide, more] = ["axes", "wide", "more"].map(|what| place.inner(what));
        Ok(Verdict::Replaced(vec![
            place.renamed(None, Some(&wide), &[])?,
            integers_node(&axes, &[0]),
            place.replacement("Unsqueeze", &[&wide, &axes], &more, &[]),
            place.replacement("Squeeze", &[&more, &axes], output, &[]),
        ]))
    },
};

pub(in super::super) const ONE_NUMBER: Rule = Rule {
    text: "gets the dimensions of a constant of one number, which rten leaves out",
    apply: with_dimensions,
};

/// The node, where its inputs have the dimensions that a constant of one number has.
pub(super) fn with_dimensions(place: &Place<'_, '_, '_>) -> Result<Verdict> {
    let is_number = |at: &usize| {
        let constant = place.constant(*at);
        constant.is_some_and(|constant| constant.dims().iter().all(|&dim| dim == 1))
    };
    let (numbers, others): (Vec<usize>, Vec<usize>) =
        (0..place.node.inputs.len()).partition(is_number);
    let rank = numbers.iter().filter_map(|&at| place.rank(at)).max().unwrap_or(0);
    if rank < 2 || others.is_empty() {
        return Ok(Verdict::Computed);
    }
    let ranks: Vec<Option<usize>> = others.iter().map(|&at| place.rank(at)).collect();
    if ranks.iter().flatten().any(|&of| of >= rank) {
        return Ok(Verdict::Computed);
    }
    if ranks.contains(&None) {
        // Most have as many dimensions: where the second look does not find out, either.
        let is_first = !place.checker.with_shapes;
        let reason = || Verdict::OfShape("the number of dimensions is not known".into());
        return Ok(if is_first { reason() } else { Verdict::Computed });
    }
    let (at, of) = (others[0], ranks[0].unwrap_or(0));
    let Some(input) = place.input(at) else { return refused("without an input") };
    let missing: Vec<i64> = (0..(rank - of) as i64).collect();
    let [axes, wide] = ["axes", "wide"].map(|what| place.inner(what));
    Ok(Verdict::Replaced(vec![
        integers_node(&axes, &missing),
        place.replacement("Unsqueeze", &[input, &axes], &wide, &[]),
        place.renamed(Some((at, &wide)), None, &[])?,
    ]))
}

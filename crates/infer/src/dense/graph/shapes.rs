//! Shapes.

/// The shape to which shapes are broadcast, if so.
pub(in super::super) fn broadcast(shapes: &[&[usize]]) -> Option<Vec<usize>> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut common = vec![1; rank];
    for shape in shapes {
        let missing = rank - shape.len();
        for (at, &length) in shape.iter().enumerate() {
            let common = &mut common[missing + at];
            match (*common, length) {
                (_, 1) => {}
                (1, _) => *common = length,
                (found, _) if found == length => {}
                _ => return None,
            }
        }
    }
    Some(common)
}

/// The product of a shape, up to a limit.
pub(in super::super) fn num_elements(shape: &[usize], limit: usize) -> Option<usize> {
    let num = shape.iter().try_fold(1_usize, |num, &length| num.checked_mul(length))?;
    (num <= limit).then_some(num)
}

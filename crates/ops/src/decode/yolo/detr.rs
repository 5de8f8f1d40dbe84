//! The CPU implementation for DETR-style heads: boxes and scores in tensors apart.

use super::rows::{misfit, push};
use super::values::{Floats, Spaced, best_class, class_of_label, passes};
use super::{Head, argument};
use crate::decode::logit::{logit_bound, sigmoid};
use det_post_types::{Box2d, Candidates, DetrBoxes, DetrClasses, Result, TensorValues, TensorView};

/// What the numbers of a head mean.
#[derive(Clone, Copy)]
pub(super) struct Form {
    pub(super) boxes: DetrBoxes,
    pub(super) has_logits: bool,
    pub(super) classes: DetrClasses,
}

pub(super) fn aligned(
    outputs: &[TensorView<'_>],
    form: Form,
    head: &Head,
    candidates: &mut Candidates<Box2d>,
) -> Result<()> {
    let detr = Detr::new(outputs, form, head)?;
    let threshold = head.score_threshold;
    let bound = if form.has_logits { logit_bound(threshold) } else { threshold };
    let mut num_nan = 0;
    for row in 0..detr.num_rows {
        if let Some(labels) = detr.labels {
            let value = detr.scores.at(row);
            if !passes(value, bound, &mut num_nan) {
                continue;
            }
            match class_of_label(labels, row, head.num_classes) {
                Some(class) => detr.push(row, class, value, head, candidates),
                None => candidates.add_unknown_classes(1),
            }
            continue;
        }
        let place = Spaced { start: row * head.num_classes, distance: 1 };
        if form.classes == DetrClasses::Best {
            let best = best_class(detr.scores, place, head.num_classes, &mut num_nan);
            if let Some((class, value)) = best.filter(|&(_, value)| value >= bound) {
                detr.push(row, class, value, head, candidates);
            }
            continue;
        }
        let mut has_nan = false;
        for class in 0..head.num_classes {
            let value = detr.scores.at(place.start + class);
            has_nan |= value.is_nan();
            if value >= bound {
                detr.push(row, class, value, head, candidates);
            }
        }
        num_nan += usize::from(has_nan);
    }
    candidates.add_nan_scores(num_nan);
    Ok(())
}

/// The checked outputs of a DETR-style head.
struct Detr<'a> {
    form: Form,
    num_rows: usize,
    boxes: Floats<'a>,
    scores: Floats<'a>,
    labels: Option<TensorValues<'a>>,
}

impl<'a> Detr<'a> {
    fn new(outputs: &[TensorView<'a>], form: Form, head: &Head) -> Result<Self> {
        let num_classes = head.num_classes;
        let (boxes, scores, labels) = match outputs {
            [boxes, scores] => (boxes, scores, None),
            [boxes, scores, labels] => (boxes, scores, Some(labels)),
            _ => {
                return Err(argument(format!(
                    "{} outputs; boxes and scores, or boxes, scores and labels expected",
                    outputs.len()
                )));
            }
        };
        let [1, num_rows, 4] = *boxes.shape() else {
            return Err(misfit(boxes, format_args!("boxes [1, N, 4]")));
        };
        match labels {
            None if *scores.shape() != [1, num_rows, num_classes] => {
                return Err(misfit(scores, format_args!("scores [1, {num_rows}, {num_classes}]")));
            }
            Some(_) if *scores.shape() != [1, num_rows] => {
                return Err(misfit(scores, format_args!("scores [1, {num_rows}] beside labels")));
            }
            Some(labels) if *labels.shape() != [1, num_rows] => {
                return Err(misfit(labels, format_args!("labels [1, {num_rows}]")));
            }
            _ => {}
        }
        Ok(Self {
            form,
            num_rows,
            boxes: Floats::of(boxes)?,
            scores: Floats::of(scores)?,
            labels: labels.map(TensorView::values),
        })
    }

    /// Adds a row with a class and its score or logit, which passes.
    fn push(
        &self,
        row: usize,
        class: usize,
        value: f32,
        head: &Head,
        candidates: &mut Candidates<Box2d>,
    ) {
        let score = if self.form.has_logits { sigmoid(value) } else { value };
        let [a, b, c, d] = self.boxes.four(row * 4);
        let bbox = match self.form.boxes {
            DetrBoxes::CornerPixels => Box2d::new(a, b, c, d),
            DetrBoxes::CenterNormalized => {
                let (width, height) = (head.network.width as f32, head.network.height as f32);
                Box2d::from_center(a * width, b * height, c * width, d * height)
            }
        };
        push(candidates, bbox, score, class, row);
    }
}

#[cfg(test)]
mod tests {
    use super::super::decode_yolo;
    use super::super::tests::NETWORK;
    use super::*;
    use det_post_types::YoloLayout;

    const NAN: f32 = f32::NAN;

    /// Classes and sources by falling score, and the counted rows with NaN and invalid boxes.
    fn decode(
        classes: DetrClasses,
        scores: &[f32],
        threshold: f32,
    ) -> (Vec<(u32, u32)>, [usize; 2]) {
        let boxes =
            [[0.5, 0.5, 0.25, 0.5], [0.5, 0.5, -0.25, 0.5], [0.25, 0.25, 0.5, 0.5]].concat();
        let outputs = [
            TensorView::new(&[1, 3, 4], TensorValues::F32(&boxes)).unwrap(),
            TensorView::new(&[1, 3, 3], TensorValues::F32(scores)).unwrap(),
        ];
        let layout =
            YoloLayout::Detr { boxes: DetrBoxes::CenterNormalized, logits: false, classes };
        let mut candidates = Candidates::with_capacity(9);
        decode_yolo(&outputs, &layout, NETWORK, 3, threshold, &mut candidates).unwrap();
        let counts = [candidates.num_nan_scores(), candidates.num_invalid_boxes()];
        candidates.finish(9);
        let found = candidates.as_slice().iter().map(|found| (found.class, found.source));
        (found.collect(), counts)
    }

    #[test]
    fn every_class_that_passes_is_a_candidate() {
        let scores = [[0.9, 0.8, 0.1], [0.7, 0.7, 0.7], [NAN, 0.5, 0.6]].concat();
        let (found, counts) = decode(DetrClasses::All, &scores, 0.5);
        assert_eq!(found, [(0, 0), (1, 0), (2, 2), (1, 2)]);
        assert_eq!(counts, [1, 3], "the second box has a negative width");
        let (found, counts) = decode(DetrClasses::Best, &scores, 0.5);
        assert_eq!(found, [(0, 0), (2, 2)]);
        assert_eq!(counts, [1, 1]);
        for classes in [DetrClasses::All, DetrClasses::Best] {
            assert_eq!(decode(classes, &scores, 0.95), (Vec::new(), [1, 0]));
        }
        // All of them pass, as many as the tensor has.
        let ones = [1.0; 9];
        assert_eq!(decode(DetrClasses::All, &ones, 0.5).0.len(), 6);
        assert_eq!(decode(DetrClasses::All, &ones, 0.5).1, [0, 3]);
    }
}

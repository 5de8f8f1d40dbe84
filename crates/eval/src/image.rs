//! Average precision in images, as COCO defines it.
//!
//! Per image and class the 100 best detections are taken by score; each takes
//! the free object it overlaps most, by at least the threshold. All images
//! make one ranking; AP is the mean over 101 recall positions of the best
//! precision from there on. AP50 and AP75 are at an overlap of 0.5 and 0.75, AP
//! is the mean over ten from 0.50 to 0.95. The overlap of boxes of which one is
//! rotated is that of the rectangles. Masks overlap by their pixels, keypoints by their
//! similarity (OKS), where the 20 best detections of an image are taken; what has no mask or no
//! keypoints overlaps nothing.
//!
//! Truth outside the filter is a region in which nothing is asked, COCO's
//! crowd: objects that count are tried first, overlap with a region is measured
//! over only the detection's area, and it may take any number of detections. An object without labelled
//! keypoints asks nothing of keypoints either, and takes one detection.
//! Source: Lin et al., COCO (ECCV 2014), and the published evaluation.

use super::curve::{NUM_RECALL_POINTS, Ranking, envelope, recall_points};
use super::overlap::overlap_2d;
use super::parts::FrameParts;
use super::{Filter2d, Frame2d, Match, Scored, Usable};

/// Most detections of a class that are taken from an image.
pub const MAX_DETECTIONS: usize = 100;

/// Most detections of a class that are taken from an image by their keypoints.
pub const MAX_DETECTIONS_BY_KEYPOINTS: usize = 20;

/// What detections and objects are compared by.
#[derive(Clone, Copy, Debug)]
pub enum Measure<'a> {
    /// Their boxes.
    Boxes,
    /// Their masks, by frame.
    Masks(&'a [FrameParts]),
    /// Their keypoints, by frame.
    Keypoints(&'a [FrameParts]),
}

/// As [`Measure`], of one frame.
#[derive(Clone, Copy)]
enum Compared<'a> {
    Boxes,
    Masks(&'a FrameParts),
    Keypoints(&'a FrameParts),
    /// A frame whose parts are not there.
    Nothing,
}

impl<'a> Measure<'a> {
    fn of_frame(&self, frame: usize) -> Compared<'a> {
        match self {
            Self::Boxes => Compared::Boxes,
            Self::Masks(parts) => parts.get(frame).map_or(Compared::Nothing, Compared::Masks),
            Self::Keypoints(parts) => {
                parts.get(frame).map_or(Compared::Nothing, Compared::Keypoints)
            }
        }
    }
}

/// Overlaps at which a detection is right: 0.50, 0.55, …, 0.95.
const NUM_THRESHOLDS: usize = 10;

/// The figures of one class inside one filter.
#[derive(Clone, Debug, PartialEq)]
pub struct Accuracy {
    /// Objects that count.
    pub num_truth: usize,
    /// AP at the ten overlaps; `None` without truth.
    pub ap: Option<[f64; NUM_THRESHOLDS]>,
    /// Precision at an overlap of 0.5 over [`recall_points`].
    pub precision: [f64; NUM_RECALL_POINTS],
    /// The detections that count at an overlap of 0.5, highest score first.
    pub scored: Vec<Scored>,
}

impl Accuracy {
    /// AP at an overlap of 0.5.
    pub fn ap50(&self) -> Option<f64> {
        self.ap.map(|[at_50, ..]| at_50)
    }

    /// AP at an overlap of 0.75.
    pub fn ap75(&self) -> Option<f64> {
        self.ap.map(|ap| ap[5])
    }

    /// Mean AP over the ten overlaps.
    pub fn mean_ap(&self) -> Option<f64> {
        self.ap.map(|ap| ap.iter().sum::<f64>() / NUM_THRESHOLDS as f64)
    }
}

/// What one class has in one image, as one filter sees it.
struct Image<'a> {
    frame: &'a Frame2d,
    /// The best detections, highest score first, as indices.
    detections: Vec<usize>,
    /// Its objects as indices; those that count come first.
    truth: Vec<usize>,
    /// Whether an object counts.
    truth_counts: Vec<bool>,
    /// Whether it takes any number of detections.
    takes_many: Vec<bool>,
    /// By detection, then by object.
    overlaps: Vec<Vec<f64>>,
}

impl Image<'_> {
    /// What each detection takes, as places in its lists.
    fn taken(&self, threshold: f64) -> impl Iterator<Item = (usize, Option<usize>)> {
        let mut is_taken = vec![false; self.truth.len()];
        self.overlaps.iter().enumerate().map(move |(detection, overlaps)| {
            let truth = self.best(overlaps, &is_taken, threshold);
            if let Some(truth) = truth {
                is_taken[truth] = true;
            }
            (detection, truth)
        })
    }

    /// What a detection takes: the free object that it overlaps most, the last of
    /// equals; only when there is none, a region.
    fn best(&self, overlaps: &[f64], is_taken: &[bool], threshold: f64) -> Option<usize> {
        let most = |of_counted: bool| {
            let fits = |at: &usize| {
                self.truth_counts[*at] == of_counted
                    && (self.takes_many[*at] || !is_taken[*at])
                    && overlaps[*at] >= threshold.min(1.0 - 1e-10)
            };
            (0..overlaps.len()).filter(fits).max_by(|&a, &b| overlaps[a].total_cmp(&overlaps[b]))
        };
        most(true).or_else(|| most(false))
    }
}

/// The best detections of a class in a frame and what they are matched to at an overlap of 0.5,
/// in descending order of score. The index of the frame is 0.
pub fn matches(frame: &Frame2d, class: u32, filter: &Filter2d) -> Vec<Match> {
    let image = image(frame, Compared::Boxes, class, filter);
    let [threshold, ..] = thresholds();
    let matched = image.taken(threshold).map(|(detection, truth)| Match {
        frame: 0,
        detection: image.detections[detection],
        truth: truth.map(|at| image.truth[at]),
    });
    matched.collect()
}

/// The figures of a class inside a filter, by its boxes.
pub fn accuracy(frames: &[Frame2d], class: u32, filter: &Filter2d) -> Accuracy {
    accuracy_by(&Measure::Boxes, frames, class, filter)
}

/// The figures of a class inside a filter, which reads the boxes in any case.
pub fn accuracy_by(
    measure: &Measure<'_>,
    frames: &[Frame2d],
    class: u32,
    filter: &Filter2d,
) -> Accuracy {
    let frames = frames.iter().enumerate();
    let images: Vec<Image<'_>> =
        frames.map(|(at, frame)| image(frame, measure.of_frame(at), class, filter)).collect();
    let counted = images.iter().flat_map(|image| &image.truth_counts);
    let num_truth = counted.filter(|&&counts| counts).count();
    let rankings = thresholds().map(|threshold| ranked(&images, threshold, filter));
    let curves = rankings.each_ref().map(|scored| precision(scored, num_truth));
    let average = |curve: &[f64; NUM_RECALL_POINTS]| curve.iter().sum::<f64>() / curve.len() as f64;
    let ap = curves.each_ref().map(average);
    let ([at_50, ..], [scored, ..]) = (curves, rankings);
    Accuracy { num_truth, ap: (num_truth > 0).then_some(ap), precision: at_50, scored }
}

/// The overlaps, computed as the original computes them.
fn thresholds() -> [f64; NUM_THRESHOLDS] {
    let (first, last) = (0.5, 0.95);
    let step = (last - first) / (NUM_THRESHOLDS - 1) as f64;
    std::array::from_fn(|i| if i + 1 == NUM_THRESHOLDS { last } else { i as f64 * step + first })
}

fn image<'a>(
    frame: &'a Frame2d,
    compared: Compared<'_>,
    class: u32,
    filter: &Filter2d,
) -> Image<'a> {
    let Frame2d { truth, detections: found } = frame;
    let of_class = |&d: &usize| found[d].class == class && found[d].is_usable();
    let mut detections: Vec<usize> = (0..found.len()).filter(of_class).collect();
    detections.sort_by(|&a, &b| found[b].score.total_cmp(&found[a].score));
    detections.truncate(match compared {
        Compared::Keypoints(_) => MAX_DETECTIONS_BY_KEYPOINTS,
        Compared::Boxes | Compared::Masks(_) | Compared::Nothing => MAX_DETECTIONS,
    });
    let has_labels = |t: usize| match compared {
        Compared::Keypoints(parts) => parts.truth.num_labelled(t) > 0,
        Compared::Boxes | Compared::Masks(_) | Compared::Nothing => true,
    };
    let of_class = (0..truth.len()).filter(|&t| truth[t].class == class);
    let (mut objects, regions): (Vec<usize>, Vec<_>) =
        of_class.partition(|&t| filter.counts(&truth[t]) && has_labels(t));
    let num_counted = objects.len();
    objects.extend(regions);
    let truth_counts: Vec<bool> = (0..objects.len()).map(|at| at < num_counted).collect();
    let overlaps = detections.iter().map(|&detection| {
        let objects = objects.iter().zip(&truth_counts);
        let overlap = |(&t, counts): (&usize, &bool)| match compared {
            Compared::Boxes => overlap_2d(&found[detection].bbox, &truth[t].bbox, !counts),
            Compared::Masks(parts) => parts.mask_overlap(detection, t, !counts),
            Compared::Keypoints(parts) => parts.keypoint_similarity(detection, (t, &truth[t].bbox)),
            Compared::Nothing => 0.0,
        };
        objects.map(overlap).collect()
    });
    let overlaps = overlaps.collect();
    let takes_many = objects.iter().map(|&t| !filter.counts(&truth[t])).collect();
    Image { frame, overlaps, detections, truth: objects, truth_counts, takes_many }
}

/// The verdicts of all images at one overlap, highest score first.
fn ranked(images: &[Image<'_>], threshold: f64, filter: &Filter2d) -> Vec<Scored> {
    let mut scored = Vec::new();
    for image in images {
        for (detection, truth) in image.taken(threshold) {
            let detection = &image.frame.detections[image.detections[detection]];
            let score = detection.score;
            match truth {
                Some(truth) if image.truth_counts[truth] => {
                    scored.push(Scored { score, is_right: true });
                }
                None if filter.has_height(&detection.bbox) => {
                    scored.push(Scored { score, is_right: false });
                }
                Some(_) | None => {}
            }
        }
    }
    scored.sort_by(|a, b| b.score.total_cmp(&a.score));
    scored
}

/// Precision at the points of recall, zero beyond the recall that is reached.
fn precision(scored: &[Scored], num_truth: usize) -> [f64; NUM_RECALL_POINTS] {
    if num_truth == 0 {
        return [0.0; NUM_RECALL_POINTS];
    }
    let ranking = Ranking::new(scored.iter().map(|entry| entry.is_right), num_truth);
    let mut precision = ranking.precision(f64::EPSILON);
    envelope(&mut precision);
    recall_points().map(|wanted| {
        let reached = ranking.recall.partition_point(|&recall| recall < wanted);
        precision.get(reached).copied().unwrap_or(0.0)
    })
}

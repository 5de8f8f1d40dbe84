//! Masks of instances from coefficients and prototypes, or from a map for each row.
//!
//! The network has M prototypes, maps of the size `[1, M, h, w]` over its input, and M
//! coefficients for each row of its predictions. A detection carries the index of its row through
//! selection, suppression and gathering ([`super::gather::sources_2d`]); its coefficients are read
//! here, once. Other networks have a map of its mask for each row, `[1, N, h, w]`
//! ([`Coefficients::Maps`]): the row's map is read in place of the sum.
//!
//! # Numbers
//! All is f32 in this order, without contraction; f16 is widened exactly:
//! 1. a cell is the sum of `coefficient * prototype`, from 0, prototypes ascending; with
//!    [`MaskParams::sigmoid`] its sigmoid ([`super::logit::sigmoid`]); of a map for each row it is its value;
//! 2. the position of a source pixel along an axis is `(pixel + 0.5) * scale + shift`
//!    ([`MaskAxis`]), not below 0 and not above the last cell; the weight of the next cell is
//!    its fraction;
//! 3. `a + (b - a) * weight` of the upper and the lower row, then of left and right;
//! 4. a bit is set where the value is above [`MaskParams::threshold`]. NaN sets none.
//!
//! The pixels lie in the detection's box: [`MaskWindow::of_box`]. The value outside of it is
//! not computed, but without [`MaskParams::crop`], where all pixels of the image may be set. With
//! [`MaskRule::Box`] the map is over the detection's box in source pixels, clipped to the image
//! ([`MaskAxis::of_box`]), a cell of zeros is around it, and the pixels are those that the box touches:
//! all that a threshold of 0.5 leaves of probabilities. A row
//! that the predictions do not have has coefficients of 0: its mask is empty.
//!
//! A mask with pixels of which a coefficient, or the value of a pixel in 4, is not finite is counted
//! ([`Workspace::num_invalid`]).
//!
//! # Capacity
//! Words of masks follow each other in the order of the detections. The first mask that would
//! exceed the capacity and all after it are left out and counted, however small they are.
//!
//! Equal on every device, but for the sigmoid, which [`super::logit`] bounds.
//!
//! Formulas: `process_mask_native` of ultralytics for [`MaskRule::Native`], with the window of the
//! map as it rounds it since 2025. Its other rules (crop before the interpolation, masks of the
//! size of the input) are not those here. [`MaskRule::Box`]: `_do_paste_mask` of mmdet and mmdeploy's
//! `ResizeInstanceMask`, above the threshold as in the latter. A map for each row with [`MaskRule::Straight`]
//! and without `crop`: `PostProcess` of RF-DETR.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
pub(crate) mod kernels;
mod mapping;

pub use mapping::{MaskAxis, MaskExtent, MaskMapping};

use det_post_types::{
    Detection2d, Error, ErrorKind, MaskParams, MaskRule, MaskWindow, Masks, Result, Size,
    TensorView, YoloLayout,
};

/// The maximum number of prototypes.
pub const MAX_PROTOTYPES: usize = 256;

/// Where the coefficients of a row are in the predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coefficients {
    /// A column per row of `[1, planes, N]`, from this plane on.
    Planes(usize),
    /// A row of `[1, N, columns]`, from this column on.
    Columns(usize),
    /// There are none: each row has its map, `[1, N, h, w]`.
    Maps,
}

impl Coefficients {
    /// The coefficients of a layout; `None` for one without masks.
    pub fn of(layout: &YoloLayout, num_classes: usize) -> Option<Self> {
        match layout {
            YoloLayout::Seg { .. } => Some(Self::Planes(4 + num_classes)),
            YoloLayout::SegEndToEnd { .. } => Some(Self::Columns(6)),
            layout => layout.has_mask_maps().then_some(Self::Maps),
        }
    }
}

/// Where the coefficients are among the values of the predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    /// Of the first row.
    first: usize,
    /// From a row to the next one.
    row_distance: usize,
    /// From a coefficient to the next one.
    distance: usize,
    num_rows: usize,
    num_coefficients: usize,
    /// Whether each row has its map.
    are_maps: bool,
}

impl Places {
    /// The places for tensors of these shapes.
    fn new(
        coefficients: Coefficients,
        predictions: &[usize],
        prototypes: &[usize],
    ) -> Result<Self> {
        let misfit = || {
            argument(format!(
                "predictions {predictions:?} with coefficients in {coefficients:?} and prototypes \
                 {prototypes:?}; as many coefficients as prototypes expected, 1 to {MAX_PROTOTYPES}"
            ))
        };
        let &[1, num_coefficients, _, _] = prototypes else { return Err(misfit()) };
        let are_maps = false;
        let places = match (coefficients, predictions) {
            (Coefficients::Maps, _) => {
                let (num_rows, num_coefficients) = (num_coefficients, 1);
                Self {
                    first: 0,
                    row_distance: 0,
                    distance: 0,
                    num_rows,
                    num_coefficients,
                    are_maps: true,
                }
            }
            (Coefficients::Planes(first), &[1, num_planes, num_rows])
                if num_planes == first.saturating_add(num_coefficients) =>
            {
                let first = first * num_rows;
                let (row_distance, distance) = (1, num_rows);
                Self { first, row_distance, distance, num_rows, num_coefficients, are_maps }
            }
            (Coefficients::Columns(first), &[1, num_rows, num_columns])
                if num_columns == first.saturating_add(num_coefficients) =>
            {
                let (row_distance, distance) = (num_columns, 1);
                Self { first, row_distance, distance, num_rows, num_coefficients, are_maps }
            }
            _ => return Err(misfit()),
        };
        let is_in_range = (1..=MAX_PROTOTYPES).contains(&places.num_coefficients);
        is_in_range.then_some(places).ok_or_else(misfit)
    }
}

/// The outputs of a network that masks are computed from.
#[derive(Clone, Copy, Debug)]
pub struct MaskInputs<'a> {
    /// The tensor with the coefficients, f32 or f16. Not read with [`Coefficients::Maps`].
    pub predictions: TensorView<'a>,
    /// Where they are in it.
    pub coefficients: Coefficients,
    /// `[1, M, h, w]`, f32 or f16; the maps of the rows with [`Coefficients::Maps`].
    pub prototypes: TensorView<'a>,
    /// The source pixels on the map.
    pub mapping: MaskMapping,
    /// By detection, its row of the predictions.
    pub sources: &'a [u32],
    /// The detections, in source pixels.
    pub detections: &'a [Detection2d],
}

/// The masks of a frame on the CPU, and memory to compute them. The memory for cells grows with
/// the first frames.
#[derive(Debug)]
pub struct Workspace {
    image: Size,
    windows: Vec<MaskWindow>,
    words: Vec<u32>,
    capacity: usize,
    num_invalid: usize,
    scratch: cpu::Scratch,
}

impl Workspace {
    /// Memory for the masks of `max_detections`, together of `capacity_bytes`.
    pub fn with_capacity(max_detections: usize, capacity_bytes: usize) -> Self {
        let capacity = capacity_bytes / size_of::<u32>();
        Self {
            image: Size::new(0, 0),
            windows: Vec::with_capacity(max_detections),
            words: Vec::with_capacity(capacity),
            capacity,
            num_invalid: 0,
            scratch: cpu::Scratch::default(),
        }
    }

    /// The masks that were computed last.
    pub fn masks(&self) -> Masks<'_> {
        Masks { image: self.image, windows: &self.windows, words: &self.words }
    }

    /// Of how many of them a coefficient or the value of a pixel is NaN or infinite.
    pub fn num_invalid(&self) -> usize {
        self.num_invalid
    }
}

/// Computes the masks of the detections, in their order, into `workspace`. Returns how many
/// were over the capacity.
///
/// # Errors
/// `Argument`, with no masks, when the shapes or the element types of the tensors do not fit,
/// naming expected and found, the mapping is of another map, or detections and sources differ in
/// number.
pub fn mask(inputs: &MaskInputs<'_>, workspace: &mut Workspace) -> Result<usize> {
    let MaskInputs { predictions, coefficients, prototypes, mapping, sources, detections } = inputs;
    workspace.windows.clear();
    workspace.words.clear();
    workspace.num_invalid = 0;
    workspace.image = mapping.image;
    let places = Places::new(*coefficients, predictions.shape(), prototypes.shape())?;
    mapping.check(prototypes.shape())?;
    if sources.len() != detections.len() {
        let (found, expected) = (sources.len(), detections.len());
        return Err(argument(format!("{expected} detections have {found} sources")));
    }
    let reader = cpu::Reader::new(predictions, prototypes, places)?;
    for (&source, detection) in sources.iter().zip(*detections) {
        let mut window = mapping.window(&detection.bbox);
        let first = workspace.words.len();
        let end = first.saturating_add(window.num_words());
        if end > workspace.capacity {
            break;
        }
        window.first_word = u32::try_from(first).unwrap_or(u32::MAX);
        workspace.words.resize(end, 0);
        let pixels = cpu::Pixels { mapping, axes: mapping.axes(&detection.bbox), window: &window };
        let words = &mut workspace.words[first..];
        let is_invalid = reader.fill(pixels, source as usize, &mut workspace.scratch, words);
        workspace.num_invalid += usize::from(is_invalid);
        workspace.windows.push(window);
    }
    Ok(detections.len() - workspace.windows.len())
}

fn argument(message: String) -> Error {
    Error::new(ErrorKind::Argument, "mask", message)
}

#[cfg(test)]
mod tests;

//! The memory of past frames as tensors by name.

use super::types::{MemoryPart, QUERY_BOX, argument};
use crate::detectors::surround::streampetr::{MEMORY_PARTS, MemoryValues};
use det_post_infer::view_decoder::CachedAnchors;
use det_post_types::Result;

/// A memory as the networks have it.
pub(super) enum Memory {
    Anchors(CachedAnchors),
    Queries(MemoryValues),
}

/// The tensors of Sparse4D's memory, as [`MEMORY_PARTS`].
const ANCHOR_PARTS: &[(&str, &[usize])] =
    &[("boxes", &[QUERY_BOX]), ("features", &[0]), ("confidence", &[])];

/// The memory of the values of [`ANCHOR_PARTS`].
fn anchors(values: Vec<Vec<f32>>) -> CachedAnchors {
    let mut values = values.into_iter();
    let mut next = || values.next().unwrap_or_default();
    CachedAnchors { boxes: next().as_chunks().0.to_vec(), features: next(), confidence: next() }
}

impl Memory {
    /// Its tensors, for these rows and channels.
    pub(super) fn parts(self, sizes: [usize; 2]) -> Vec<MemoryPart> {
        let part = |((name, of_row), values): (&(&'static str, &[usize]), Vec<f32>)| MemoryPart {
            name,
            shape: shape_of(of_row, sizes),
            values,
        };
        match self {
            Self::Anchors(CachedAnchors { boxes, features, confidence }) => {
                let values = [boxes.into_flattened(), features, confidence];
                ANCHOR_PARTS.iter().zip(values).map(part).collect()
            }
            Self::Queries(values) => MEMORY_PARTS.iter().zip(values).map(part).collect(),
        }
    }

    /// The memory of tensors by name, for these rows and channels: of StreamPETR or of Sparse4D.
    ///
    /// # Errors
    /// `Argument` when a tensor is missing, unknown, of another length or not finite.
    pub(super) fn of_parts(
        parts: &[(&str, &[f32])],
        is_streampetr: bool,
        sizes: [usize; 2],
    ) -> Result<Self> {
        let names = if is_streampetr { &MEMORY_PARTS[..] } else { ANCHOR_PARTS };
        let is_unknown = |part: &&(&str, &[f32])| names.iter().all(|name| name.0 != part.0);
        if let Some((other, _)) = parts.iter().find(is_unknown) {
            let known = names.iter().map(|name| name.0).collect::<Vec<_>>().join(", ");
            return argument(format!("memory has {other}; allowed: {known}"));
        }
        let take = |(name, of_row): &(&str, &[usize])| {
            let len = shape_of(of_row, sizes).iter().product::<usize>();
            match parts.iter().find(|part| part.0 == *name) {
                Some((_, values)) if values.iter().any(|value| !value.is_finite()) => {
                    argument(format!("memory.{name} has values that are not finite"))
                }
                Some((_, values)) if values.len() == len => Ok(values.to_vec()),
                Some((_, values)) => {
                    argument(format!("memory.{name} has {} values; {len} expected", values.len()))
                }
                None => argument(format!("memory has no {name}")),
            }
        };
        let values = names.iter().map(take).collect::<Result<Vec<_>>>()?;
        Ok(match <MemoryValues>::try_from(values) {
            Ok(values) => Self::Queries(values),
            Err(values) => Self::Anchors(anchors(values)),
        })
    }
}

/// Rows, then the sizes of a row, in which 0 stands for the channels.
fn shape_of(of_row: &[usize], [rows, channels]: [usize; 2]) -> Vec<usize> {
    let sizes = of_row.iter().map(|&size| if size == 0 { channels } else { size });
    std::iter::once(rows).chain(sizes).collect()
}

//! The memory of past queries.

use super::Lengths;
use det_post_types::{Error, ErrorKind, Result, Stamp, TensorValues, TensorView};

/// Queries of past frames, newest first, in the frame of the vehicle at the latest frame.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Embeddings, [M, C].
    pub(super) embedding: Vec<f32>,
    /// Centres in metres, [M, 3].
    pub(super) reference_point: Vec<f32>,
    /// Transforms to the frame of the vehicle, [M, 4, 4].
    pub(super) pose: Vec<f32>,
    /// Velocities, [M, 2].
    pub(super) velocity: Vec<f32>,
    /// Ages, [M].
    pub(super) ages: Ages,
}

/// The tensors of a memory in the order of [`MEMORY_PARTS`].
pub type MemoryValues = [Vec<f32>; 5];

/// The names of the tensors of a memory of M rows, and the sizes of a row: C for 0.
pub const MEMORY_PARTS: [(&str, &[usize]); 5] = [
    ("embedding", &[0]),
    ("reference_point", &[3]),
    ("pose", &[4, 4]),
    ("velocity", &[2]),
    ("age", &[]),
];

/// The ages of the rows of a memory.
#[derive(Clone, Debug)]
pub(super) struct Ages {
    /// Seconds since the frame of each row.
    pub(super) seconds: Vec<f32>,
    /// The frame of each row.
    stamps: Vec<Stamp>,
}

impl Ages {
    pub(super) fn new(num_rows: usize) -> Self {
        Self { seconds: vec![0.0; num_rows], stamps: vec![Stamp::default(); num_rows] }
    }

    /// Starts over with a frame: all rows are as old as it.
    pub(super) fn clear(&mut self, stamp: Stamp) {
        self.stamps.fill(stamp);
    }

    /// The ages at a time.
    pub(super) fn at(&self, stamp: Stamp) -> Vec<f32> {
        self.stamps.iter().map(|then| stamp.seconds_since(*then) as f32).collect()
    }

    /// Replaces the ages by those at a time, as many.
    pub(super) fn set(&mut self, seconds: &[f32], stamp: Stamp) {
        for (then, age) in self.stamps.iter_mut().zip(seconds) {
            let nanos = (f64::from(*age) * 1e9).round() as i64;
            *then = Stamp::from_nanos(stamp.nanos().saturating_sub(nanos));
        }
    }

    /// Computes the ages at a frame.
    pub(super) fn age_to(&mut self, stamp: Stamp) {
        for (seconds, then) in self.seconds.iter_mut().zip(&self.stamps) {
            *seconds = stamp.seconds_since(*then) as f32;
        }
    }

    /// Adds rows of a frame at the front; as many are lost at the end.
    pub(super) fn push(&mut self, num_new: usize, stamp: Stamp) {
        let num_rows = self.stamps.len();
        let num_new = num_new.min(num_rows);
        self.stamps.copy_within(..num_rows - num_new, num_new);
        self.stamps[..num_new].fill(stamp);
    }
}

/// The tensors that the head gives back, each with more rows than the memory.
#[derive(Clone, Copy, Debug)]
pub struct Updated<'a> {
    /// Embeddings.
    pub embedding: TensorView<'a>,
    /// Centres.
    pub reference_point: TensorView<'a>,
    /// Transforms.
    pub pose: TensorView<'a>,
    /// Velocities.
    pub velocity: TensorView<'a>,
}

impl Memory {
    /// A memory of zeros.
    pub fn new(lengths: &Lengths) -> Self {
        let rows = lengths.memory;
        Self {
            embedding: vec![0.0; rows * lengths.num_channels],
            reference_point: vec![0.0; rows * 3],
            pose: vec![0.0; rows * 16],
            velocity: vec![0.0; rows * 2],
            ages: Ages::new(rows),
        }
    }

    /// Starts over with a frame: all rows are zero and as old as the frame.
    pub fn clear(&mut self, stamp: Stamp) {
        let Self { embedding, reference_point, pose, velocity, .. } = self;
        for values in [embedding, reference_point, pose, velocity] {
            values.fill(0.0);
        }
        self.ages.clear(stamp);
    }

    /// Replaces the rows by the first ones that the head gives back; those that are new are
    /// of this frame.
    ///
    /// # Errors
    /// `Inference` when a tensor has fewer rows than the memory, another number than the
    /// others, or does not hold f32; then the memory is as before.
    pub fn update(&mut self, updated: &Updated<'_>, stamp: Stamp) -> Result<()> {
        let num_rows = self.ages.stamps.len();
        let Self { embedding, reference_point, pose, velocity, ages } = self;
        let num_given = updated.embedding.shape().get(1).copied().unwrap_or(0);
        let rows = [
            (embedding, updated.embedding),
            (reference_point, updated.reference_point),
            (pose, updated.pose),
            (velocity, updated.velocity),
        ];
        let mut sources = [&[][..]; 4];
        for (source, (target, tensor)) in sources.iter_mut().zip(&rows) {
            let per_row = target.len().checked_div(num_rows).unwrap_or(0);
            *source = match tensor.values() {
                TensorValues::F32(values)
                    if num_given >= num_rows && values.len() == num_given * per_row =>
                {
                    &values[..target.len()]
                }
                values => {
                    let (element, shape) = (values.element(), tensor.shape());
                    let message = format!(
                        "a memory of {num_rows} rows was given {element} {shape:?} beside {num_given} rows"
                    );
                    return Err(Error::new(ErrorKind::Inference, "streampetr", message));
                }
            };
        }
        for ((target, _), source) in rows.into_iter().zip(sources) {
            target.copy_from_slice(source);
        }
        ages.push(num_given - num_rows, stamp);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::Size;

    #[test]
    fn new_rows_come_first_and_ages_are_of_each_row() {
        let lengths = Lengths {
            num_cameras: 1,
            input_size: Size::new(1, 1),
            num_channels: 2,
            memory: 3,
            num_queries: 4,
            channels_last: false,
        };
        let at = |seconds| Stamp::from_ros(seconds, 0);
        let mut memory = Memory::new(&lengths);
        memory.clear(at(100));
        for (frame, ages) in [(101, [1.0; 3]), (104, [3.0, 3.0, 4.0]), (105, [1.0, 1.0, 4.0])] {
            memory.ages.age_to(at(frame));
            assert_eq!(memory.ages.seconds, ages, "{frame}");
            // Two rows more than the memory has.
            let rows = |per_row: usize| vec![frame as f32; 5 * per_row];
            let [embedding, point, pose, velocity] = [2, 3, 16, 2].map(rows);
            let given = |values, shape| TensorView::new(shape, TensorValues::F32(values)).unwrap();
            let updated = Updated {
                embedding: given(&embedding, &[1, 5, 2]),
                reference_point: given(&point, &[1, 5, 3]),
                pose: given(&pose, &[1, 5, 4, 4]),
                velocity: given(&velocity, &[1, 5, 2]),
            };
            memory.update(&updated, at(frame)).unwrap();
            assert_eq!(memory.embedding, [frame as f32; 6]);
            let fewer = Updated { embedding: given(&embedding[..4], &[1, 2, 2]), ..updated };
            assert!(memory.update(&fewer, at(frame + 1)).is_err());
            let uneven = Updated { velocity: given(&velocity[..8], &[1, 4, 2]), ..updated };
            assert!(memory.update(&uneven, at(frame + 1)).is_err());
        }
        memory.clear(at(7));
        memory.ages.age_to(at(7));
        assert_eq!((&memory.ages.seconds[..], &memory.pose[..2]), (&[0.0; 3][..], &[0.0; 2][..]));
    }
}

//! The memory of the selection, which all decoders on the device share.

use super::Limits;
use super::kernels::{SelectSettings, SelectSlices};
use crate::device::cuda::{DeviceBuffer, Plain, Stream};
use crate::shared::{DeviceCandidates, DeviceCounters};
use det_post_types::{Candidate, Result};

/// Found candidates, settings and totals of a decoder.
pub(crate) struct Selecting<B> {
    pub settings: DeviceBuffer<SelectSettings>,
    /// A bit per class.
    pub wanted: DeviceBuffer<u32>,
    found: DeviceBuffer<Candidate<B>>,
    words: DeviceBuffer<u32>,
    totals: DeviceBuffer<u64>,
}

impl<B> Selecting<B>
where
    Candidate<B>: Plain,
{
    /// Memory for `num_found` candidates that pass, and the filter of `num_classes`.
    pub(crate) fn new(stream: &Stream, num_found: usize, num_classes: usize) -> Result<Self> {
        Ok(Self {
            settings: DeviceBuffer::zeros(stream, 1)?,
            wanted: DeviceBuffer::zeros(stream, num_classes.div_ceil(32))?,
            found: DeviceBuffer::zeros(stream, num_found)?,
            words: DeviceBuffer::zeros(stream, num_found)?,
            totals: DeviceBuffer::zeros(stream, 3)?,
        })
    }

    /// Writes the limits of a decoder with thresholds of its own and without a class
    /// filter, and waits.
    pub(crate) fn set(&mut self, limits: Limits) -> Result<()> {
        self.settings.write(&[SelectSettings::new(limits)])
    }

    /// The maximum number of candidates that pass.
    pub(crate) fn capacity(&self) -> usize {
        self.found.len()
    }

    /// The slices of a launch that selects `candidates`.
    pub(crate) fn slices<'a>(
        &'a mut self,
        stream: &Stream,
        candidates: &'a mut DeviceCandidates<B>,
        counters: &'a mut DeviceCounters,
    ) -> Result<SelectSlices<'a, B>> {
        Ok(SelectSlices {
            settings: self.settings.input(stream)?,
            wanted: self.wanted.input(stream)?,
            found: self.found.output(stream)?,
            words: self.words.output(stream)?,
            items: candidates.items.output(stream)?,
            num: candidates.num.output(stream)?,
            totals: self.totals.output(stream)?,
            counters: counters.output(stream)?,
        })
    }
}

//! A view decoder of either family on the CPU.

use super::{
    CachedAnchors, DecodedQueries, View, ViewNetwork, check_maps, detr3d, no_memory, sparse4d,
};
use det_post_ops::view::sample::MapsView;
use det_post_types::{Motion, Result};

/// A view decoder on the CPU, in f32.
#[derive(Clone, Debug)]
pub struct CpuViewDecoder {
    map_sizes: [usize; 3],
    family: Family,
}

#[derive(Clone, Debug)]
enum Family {
    Detr3d(Box<detr3d::CpuDecoder>),
    Sparse4d(Box<sparse4d::CpuDecoder>),
}

impl CpuViewDecoder {
    /// A decoder without views: it sees nothing until they are set.
    pub fn new(network: &ViewNetwork) -> Self {
        let family = match network {
            ViewNetwork::Detr3d(network) => {
                Family::Detr3d(Box::new(detr3d::CpuDecoder::new(network.clone())))
            }
            ViewNetwork::Sparse4d(network) => {
                Family::Sparse4d(Box::new(sparse4d::CpuDecoder::new(network.clone())))
            }
        };
        Self { map_sizes: network.map_sizes(), family }
    }

    /// Replaces the views of the next frames: after a change of calibration, and when a
    /// image is missing.
    ///
    /// # Errors
    /// `Argument` when there are not as many as the network has, or a matrix is not
    /// finite.
    pub fn set_views(&mut self, views: &[View]) -> Result<()> {
        match &mut self.family {
            Family::Detr3d(decoder) => decoder.set_views(views),
            Family::Sparse4d(decoder) => decoder.set_views(views),
        }
    }

    /// Decodes a frame. A network with a memory uses that of the frame before, moved by
    /// `motion`; without a motion it forgets it. One without a memory ignores the motion.
    ///
    /// # Errors
    /// `Argument` when the maps are not of the network's views, levels and channels; the
    /// memory is then forgotten.
    pub fn run<'m>(
        &mut self,
        maps: impl Into<MapsView<'m>>,
        motion: Option<&Motion>,
    ) -> Result<DecodedQueries<'_>> {
        let maps = &maps.into();
        if let Err(error) = check_maps(maps, self.map_sizes) {
            self.forget();
            return Err(error);
        }
        match &mut self.family {
            Family::Detr3d(decoder) => decoder.run(maps),
            Family::Sparse4d(decoder) => decoder.run(maps, motion),
        }
    }

    /// The result of the last frame.
    pub fn decoded(&self) -> DecodedQueries<'_> {
        match &self.family {
            Family::Detr3d(decoder) => decoder.decoded(),
            Family::Sparse4d(decoder) => decoder.decoded(),
        }
    }

    /// Forgets the frames before.
    pub fn forget(&mut self) {
        match &mut self.family {
            Family::Detr3d(_) => {}
            Family::Sparse4d(decoder) => decoder.forget(),
        }
    }

    /// The memory; `None` for a network without one, and when there was no frame before.
    pub fn memory(&self) -> Option<CachedAnchors> {
        match &self.family {
            Family::Detr3d(_) => None,
            Family::Sparse4d(decoder) => decoder.memory().cached(),
        }
    }

    /// Replaces the memory, as if the frame before had left this one.
    ///
    /// # Errors
    /// `Argument` for a network without a memory, or one of another size.
    pub fn set_memory(&mut self, memory: &CachedAnchors) -> Result<()> {
        match &mut self.family {
            Family::Detr3d(_) => Err(no_memory()),
            Family::Sparse4d(decoder) => decoder.set_memory(memory),
        }
    }
}

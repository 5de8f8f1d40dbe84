//! Facts of heads with proposals: TransFusion and BEVFusion.

use crate::config::declaration::Change::Fixed;
use crate::config::reader::Reader;
use crate::config::value::Length::Exactly;
use crate::config::value::{integer, list, text};
use det_post_types::ProposalLayout;

/// Facts of a head with proposals.
#[derive(Clone, Debug, PartialEq)]
pub struct ProposalFacts {
    /// The outputs.
    pub layout: ProposalLayout,
    /// Names of the outputs: boxes, scores, and directions or labels. Empty: by position in this
    /// order.
    pub output_names: Vec<String>,
    /// Voxels of a cell, in which x and y of proposals are given, along one axis.
    pub downsample_factor: u32,
    /// The number of proposals; `None`: the network's.
    pub num_proposals: Option<usize>,
}

impl ProposalFacts {
    pub(super) fn read(p: &mut Reader<'_>, layout: ProposalLayout) -> Self {
        let output_names = p.optional(
            "output_names",
            Fixed,
            list(text(), Exactly(3)),
            "by position",
            "Outputs: boxes, scores, directions (`transfusion`) or labels (`bevfusion`).",
        );
        Self {
            layout,
            output_names: output_names.unwrap_or_default(),
            downsample_factor: p.required(
                "downsample_factor",
                integer(1..=64),
                "Voxels of a cell, the unit of x and y, along one axis (`out_size_factor`).",
            ) as u32,
            num_proposals: p.optional(
                "num_proposals",
                Fixed,
                integer(1..=1 << 16),
                "the network's",
                "Number of proposals.",
            ),
        }
    }
}

//! Building networks that merge levels on a plane, and end there.

use super::builder::{NetworkBuilder, check_grid, named, refuse};
use super::operation::{
    GridAxes, Level, MergedLevels, Operator, Origin, SiteOutput, SparseNetwork, SparseTensor, ToMap,
};
use det_post_ops::sparse::merge::MAX_SOURCES;
use det_post_ops::sparse::rulebook::{Scaled, SiteGrid, check_merge};
use det_post_types::Result;

impl NetworkBuilder {
    /// Adds the merging of tensors, each with the scale of its level, on a plane of `shape`
    /// cells: [`det_post_ops::sparse::merge`].
    ///
    /// # Errors
    /// When there is no tensor or more than [`MAX_SOURCES`], one comes twice, they differ in
    /// their channels, or a level has no place on the plane.
    pub fn merge(
        &mut self,
        name: &str,
        inputs: &[Scaled<usize>],
        shape: [u32; 3],
    ) -> Result<usize> {
        let Some(first) = inputs.first().filter(|_| inputs.len() <= MAX_SOURCES) else {
            let num = inputs.len();
            return refuse(name, &format!("{num} inputs; 1 to {MAX_SOURCES} are allowed"));
        };
        check_grid(name, shape)?;
        let plane = named(name, SiteGrid::new(1, shape))?;
        let channels = self.tensors[first.level].channels;
        let (mut from, mut tensors): (MergedLevels, _) = ([None; MAX_SOURCES], [None; MAX_SOURCES]);
        for (place, &Scaled { level: tensor, scale }) in inputs.iter().enumerate() {
            let SparseTensor { level, channels: found } = self.tensors[tensor];
            if found != channels {
                return refuse(name, &format!("inputs have {channels} and {found} channels"));
            }
            if tensors.contains(&Some(tensor)) {
                return refuse(name, "an input comes twice");
            }
            let grid = named(name, SiteGrid::new(1, self.levels[level].shape))?;
            named(name, check_merge(&grid, scale, &plane))?;
            from[place] = Some(Scaled { level, scale });
            tensors[place] = Some(tensor);
        }
        let level = self.derive(name, Level { shape, origin: Origin::Merged { from } })?;
        self.push(name, Operator::Merge { inputs: tensors }, SparseTensor { level, channels })
    }

    /// The network, of axes z y x, whose outputs are features of the sites of a plane.
    ///
    /// # Errors
    /// When there is no output, two have one name, they are not at one level, which has one cell
    /// along z, or the output of an operation is not used.
    pub fn finish_on_sites(self, outputs: Vec<SiteOutput>) -> Result<SparseNetwork> {
        let Some(first) = outputs.first() else { return refuse("output", "there is none") };
        let level = self.tensors[first.tensor].level;
        for (at, SiteOutput { name, tensor }) in outputs.iter().enumerate() {
            if self.tensors[*tensor].level != level {
                let message = format!("is at another level than output {}", first.name);
                return refuse(name, &message);
            }
            if outputs[..at].iter().any(|earlier| earlier.name == *name) {
                return refuse(name, "two outputs have this name");
            }
        }
        let shape = self.levels[level].shape;
        if shape[0] != 1 {
            return refuse(
                &first.name,
                &format!("its grid is {shape:?}; one cell along z is expected"),
            );
        }
        let tensors: Vec<usize> = outputs.iter().map(|output| output.tensor).collect();
        self.check_used(&tensors)?;
        let map = ToMap { input: first.tensor, axes: [0, 1, 2] };
        let Self { levels, tensors, operations, .. } = self;
        let axes = GridAxes::Zyx;
        Ok(SparseNetwork { axes, levels, tensors, operations, map, site_outputs: outputs })
    }
}

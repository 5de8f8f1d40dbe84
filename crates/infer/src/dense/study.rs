//! What the layers of a network write.

use std::path::{Path, PathBuf};

use det_post_ops::dense::Region;

use super::{Kind, Network};
use det_post_types::{ElementType, LayerStudy, Result, StudiedLayer, StudiedNetwork};

/// The part of a study that a network writes.
pub(crate) struct Study {
    study: LayerStudy,
    model: PathBuf,
    /// By step: numbers of layers and the windows that they write.
    writes: Vec<Vec<(usize, Vec<Region>)>>,
}

impl Study {
    /// Adds a network to a study.
    pub(crate) fn begin(study: &LayerStudy, model: &Path, engine: &str, network: &Network) -> Self {
        let (mut layers, mut writes) = (Vec::new(), Vec::new());
        let buffers = network.plan.buffers();
        for step in network.plan.steps() {
            let parts = match &step.kind {
                Kind::Pointwise(jobs) => {
                    jobs.iter().map(|job| (&job.name, &job.layers, job.targets.clone())).collect()
                }
                kind => vec![(&step.name, &step.layers, kind.targets())],
            };
            let mut of_step = Vec::new();
            for (name, of_file, mut targets) in parts {
                targets.retain(|target| buffers[target.buffer].element != ElementType::I32);
                let Some(first) = targets.first() else { continue };
                of_step.push((layers.len(), targets.clone()));
                layers.push(StudiedLayer {
                    name: name.to_string(),
                    layers: of_file.iter().map(|name| name.to_string()).collect(),
                    kernel: step.kind.shown(),
                    products: step.kind.products(),
                    stored: buffers[first.buffer].element,
                    largest: 0.0,
                    num_not_finite: 0,
                });
            }
            writes.push(of_step);
        }
        let model = model.to_owned();
        study.begin(StudiedNetwork { model: model.clone(), engine: engine.to_owned(), layers });
        Self { study: study.clone(), model, writes }
    }

    /// Adds what a step has written; `read` gives the values of a window.
    ///
    /// # Errors
    /// The errors of `read`.
    pub(crate) fn see(
        &self,
        step: usize,
        read: impl Fn(&Region) -> Result<Vec<f32>>,
    ) -> Result<()> {
        for (layer, targets) in self.writes.get(step).into_iter().flatten() {
            for target in targets {
                self.study.see(&self.model, *layer, &read(target)?);
            }
        }
        Ok(())
    }
}

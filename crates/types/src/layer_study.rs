//! What the layers of networks write, for the choice of their precision.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::ElementType;

/// What the layers of networks write: shared by engines, which add to it, and their caller.
#[derive(Clone, Debug, Default)]
pub struct LayerStudy(Arc<Mutex<Vec<StudiedNetwork>>>);

/// A network and its layers in the order in which they run.
#[derive(Clone, Debug, PartialEq)]
pub struct StudiedNetwork {
    /// Its file.
    pub model: PathBuf,
    /// What computed it.
    pub engine: String,
    /// Its layers.
    pub layers: Vec<StudiedLayer>,
}

/// A layer, and the values that it wrote so far.
#[derive(Clone, Debug, PartialEq)]
pub struct StudiedLayer {
    /// Operator and name.
    pub name: String,
    /// Names of the layers of the file that it computes, as [`GpuEngineOptions::keep_f32`](super::GpuEngineOptions::keep_f32)
    /// takes them.
    pub layers: Vec<String>,
    /// The kernel.
    pub kernel: &'static str,
    /// The elements of its products; `None` of a layer without.
    pub products: Option<ElementType>,
    /// The elements that it writes.
    pub stored: ElementType,
    /// The largest magnitude of a finite value; 0 where there was none.
    pub largest: f32,
    /// Infinities and NaNs.
    pub num_not_finite: u64,
}

impl StudiedLayer {
    /// Adds values.
    pub fn see(&mut self, values: &[f32]) {
        for value in values {
            match value.is_finite() {
                true => self.largest = self.largest.max(value.abs()),
                false => self.num_not_finite += 1,
            }
        }
    }
}

/// A study is itself.
impl PartialEq for LayerStudy {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for LayerStudy {}

impl LayerStudy {
    /// Adds a network; one of the same file with the same layers goes on.
    pub fn begin(&self, network: StudiedNetwork) {
        let mut networks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let names = |of: &StudiedNetwork| -> Vec<String> {
            of.layers.iter().map(|layer| layer.name.clone()).collect()
        };
        match networks.iter().position(|other| other.model == network.model) {
            Some(at) if names(&networks[at]) == names(&network) => {}
            Some(at) => networks[at] = network,
            None => networks.push(network),
        }
    }

    /// Adds what a layer of a network wrote, by its position.
    pub fn see(&self, model: &Path, layer: usize, values: &[f32]) {
        let mut networks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let network = networks.iter_mut().find(|network| network.model == model);
        if let Some(layer) = network.and_then(|network| network.layers.get_mut(layer)) {
            layer.see(values);
        }
    }

    /// The networks so far.
    pub fn networks(&self) -> Vec<StudiedNetwork> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(model: &str, names: &[&str]) -> StudiedNetwork {
        let layer = |name: &&str| StudiedLayer {
            name: (*name).to_owned(),
            layers: Vec::new(),
            kernel: "conv",
            products: None,
            stored: ElementType::F32,
            largest: 0.0,
            num_not_finite: 0,
        };
        StudiedNetwork {
            model: model.into(),
            engine: "test".into(),
            layers: names.iter().map(layer).collect(),
        }
    }

    #[test]
    fn networks_go_on_until_their_layers_change() {
        let study = LayerStudy::default();
        let (a, b) = (Path::new("a"), Path::new("b"));
        study.begin(network("a", &["x", "y"]));
        study.begin(network("b", &["z"]));
        study.see(a, 1, &[1.0, -3.0, f32::NAN, f32::INFINITY, 0.0]);
        study.see(a, 1, &[2.0, f32::NEG_INFINITY]);
        study.see(b, 0, &[]);
        study.see(b, 7, &[1.0]);
        study.see(Path::new("c"), 0, &[1.0]);
        study.begin(network("a", &["x", "y"]));
        let networks = study.networks();
        assert_eq!(networks.len(), 2);
        let y = &networks[0].layers[1];
        assert_eq!((y.largest, y.num_not_finite), (3.0, 3));
        assert_eq!(networks[1].layers[0].largest, 0.0);
        study.begin(network("a", &["x"]));
        assert_eq!(study.networks()[0].layers.len(), 1);
        assert_eq!(study.clone(), study);
        assert_ne!(LayerStudy::default(), study);
    }
}

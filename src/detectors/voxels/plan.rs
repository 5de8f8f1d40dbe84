//! The encoder of a channel: its file, checked against the head and laid out for the
//! configured capacities.

use crate::config::{EncoderFacts, LidarConfig, LidarFacts, LidarOutputs};
use det_post_infer::sparse::{self, Plan, SparseFile, SparseNetwork};
use det_post_types::{Error, ErrorKind, FrameReport, PointChannel, Result};

/// Reads the encoder of a channel and lays it out.
///
/// # Errors
/// `Io` or `Model` when the file cannot be read, or its point channels, its grid or the axes
/// of its map are not those of the head; `Config` when there are not as many capacities as
/// levels.
pub fn plan(config: &LidarConfig) -> Result<Plan> {
    plan_of(config, sparse::load(config.encoder_file())?)
}

/// As [`plan`], of a file that was read.
pub(in crate::detectors) fn plan_of(config: &LidarConfig, file: SparseFile) -> Result<Plan> {
    let path = config.encoder_file().display();
    let has_file = config.facts.encoder.has_file();
    if has_file && file.rest.is_some() {
        tracing::info!("encoder {path}: the network behind its map is not used, model_path is");
    }
    let checked = check(&file, &config.facts)
        .map_err(|message| Error::new(ErrorKind::Model, "encoder", format!("{path}: {message}")));
    checked?;
    let network = file.network.in_zyx();
    let capacities = capacities(config, &network)?;
    tracing::info!(
        "encoder {path}: {}, {} operations on {} levels",
        file.dialect,
        network.operations.len(),
        network.levels.len()
    );
    Plan::new(network, &capacities)
}

/// Whether a file fits a head; otherwise what was found and what is expected.
fn check(file: &SparseFile, facts: &LidarFacts) -> std::result::Result<(), String> {
    let network = &file.network;
    let names = point_channels(facts);
    if network.input_channels() != names.len() {
        return Err(format!(
            "a voxel has {} channels, the head has {} ({})",
            network.input_channels(),
            names.len(),
            names.join(" ")
        ));
    }
    if let Some(found) = &file.point_channels
        && *found != names
    {
        let (found, names) = (found.join(" "), names.join(" "));
        return Err(format!("its point channels are {found}, the head's are {names}"));
    }
    check_grid(network, facts)?;
    let is_on_sites = !network.site_outputs.is_empty();
    match (&facts.encoder, is_on_sites) {
        (EncoderFacts::Sites(_), false) => {
            return Err("it ends in a map; with `encoder: sites` its outputs are on sites".into());
        }
        (EncoderFacts::Voxels(_) | EncoderFacts::None(_), true) => {
            return Err("its outputs are on sites, which takes a head with `encoder: sites`".into());
        }
        _ => {}
    }
    // Proposals are not decoded by their places in a map.
    if facts.encoder.has_file() && !matches!(facts.outputs, LidarOutputs::Proposals(_)) {
        check_map(network)?;
    }
    if network.levels.len() > FrameReport::MAX_LEVELS {
        let num_levels = network.levels.len();
        return Err(format!("{num_levels} levels exceed the limit of {}", FrameReport::MAX_LEVELS));
    }
    Ok(())
}

/// The map of an encoder in a separate file is decoded as rows along y and columns along x.
fn check_map(network: &SparseNetwork) -> std::result::Result<(), String> {
    let places = network.axes.of_zyx();
    if network.map.axes.map(|axis| places[axis]) == [0, 1, 2] {
        return Ok(());
    }
    let [depth, rows, columns] = network.map.axes.map(|axis| ["z", "y", "x"][places[axis]]);
    Err(format!(
        "its map has depth along {depth}, rows along {rows} and columns along {columns}; \
         heads are decoded from z, y and x"
    ))
}

/// The grid has the cells of the head's, and along z one more or not: the original networks
/// have one more.
fn check_grid(network: &SparseNetwork, facts: &LidarFacts) -> std::result::Result<(), String> {
    let mut found = [0; 3];
    for (place, cells) in network.axes.of_zyx().into_iter().zip(network.levels[0].shape) {
        found[place] = cells;
    }
    let [nx, ny, nz] = facts.grid.grid_size();
    if found == [nz, ny, nx] || found == [nz + 1, ny, nx] {
        return Ok(());
    }
    Err(format!(
        "its grid has {found:?} cells along z, y, x; the head has {:?}, or {} along z",
        [nz, ny, nx],
        nz + 1
    ))
}

fn point_channels(facts: &LidarFacts) -> Vec<String> {
    let channels = facts.point_channels.iter().map(|channel| match channel {
        PointChannel::Intensity => "intensity",
        PointChannel::Ring => "ring",
        PointChannel::TimeLag => "time_lag",
        PointChannel::Named(name) => name,
    });
    ["x", "y", "z"].into_iter().chain(channels).map(str::to_owned).collect()
}

fn capacities(config: &LidarConfig, network: &SparseNetwork) -> Result<Vec<usize>> {
    let Some(given) = &config.sparse_encoder.level_capacities else {
        return Ok(network.default_capacities(config.voxel_capacity));
    };
    let num_expected = network.levels.len() - 1;
    if given.len() != num_expected {
        let message = format!(
            "encoder.level_capacities has {} values, the encoder has {num_expected} levels after \
             the voxels",
            given.len()
        );
        return Err(Error::new(ErrorKind::Config, "encoder", message));
    }
    Ok([&[config.voxel_capacity], &given[..]].concat())
}

//! Encoders as files: both dialects give the map of the same network.

use det_post_infer::sparse::{CpuEncoder, Dialect, Plan, SparseFile, load};
use det_post_ops::sparse::conv::Precision;
use det_post_types::{ElementType, Tensor};

use det_post_testing::assert_close;
use det_post_testing::npz::Npz;
use det_post_testing::shared_data::shared_data;

#[test]
fn both_dialects_give_their_maps() {
    let Some(folder) = shared_data().map(|data| data.join("sparse")) else { return };
    let reference = Npz::open(&folder.join("tiny.npz"));
    let features = reference.f32("features");
    let halves: Vec<f32> = features.iter().map(|&value| Precision::F16.round(value)).collect();
    for (file, dialect, features, expected) in [
        ("tiny.scn.onnx", Dialect::Scn, &halves[..], "bev_of_f16_features"),
        ("tiny_autoware.onnx", Dialect::Autoware, features, "bev_of_f32_features"),
    ] {
        let SparseFile { network, dialect: found, .. } = load(&folder.join(file)).unwrap();
        assert_eq!(found, dialect);
        let coordinates = reference.rows_of_4("coords");
        // Voxels at random grow more than clouds do: every cell has a place.
        let capacities = network.default_capacities(usize::MAX);
        let mut map = Tensor::zeros(ElementType::F32, &network.map_shape()).unwrap();
        assert_eq!(map.shape(), reference.array(expected).shape);
        let plan = Plan::new(network, &capacities).unwrap();
        let mut encoder = CpuEncoder::new(plan, Precision::F32, 2).unwrap();
        encoder.run(coordinates, features, &mut map).unwrap();
        let sites: Vec<i32> = encoder.levels().iter().map(|sites| sites.len() as i32).collect();
        assert_eq!(sites, reference.i32("sites"), "{file}");
        let Tensor::F32 { values, .. } = &map else { panic!("{map:?}") };
        assert_close(values, reference.f32(expected), file);
    }
}

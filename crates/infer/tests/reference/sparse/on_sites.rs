//! Networks that end on sites (VoxelNeXt): what their files may say, and what they compute.

use std::collections::BTreeMap;

use det_post_infer::sparse::{CpuEncoder, Operator, Origin, Plan, SparseNetwork, parse};
use det_post_ops::sparse::conv::Precision;
use det_post_ops::sparse::rulebook::{Geometry, Mode};
use det_post_types::{ElementType, Tensor};

use det_post_testing::assert_close;
use det_post_testing::onnx::Attr;
use det_post_testing::random::Random;
use det_post_testing::sparse_onnx::File;
use det_post_testing::voxelnext::{SMALL, voxels};

fn read(file: &File) -> SparseNetwork {
    parse(&file.to_bytes()).unwrap().network
}

#[track_caller]
fn refusal(file: &File) -> String {
    parse(&file.to_bytes()).unwrap_err().message().to_owned()
}

/// The place of the node that merges.
fn merge_of(file: &File) -> usize {
    file.nodes.iter().position(|node| node.op == "MergeSites").unwrap()
}

#[test]
fn levels_and_outputs_are_those_of_the_file() {
    let network = read(&SMALL.file());
    let shapes: Vec<_> = network.levels.iter().map(|level| level.shape).collect();
    let [a, b, c] = [[41, 96, 64], [21, 48, 32], [11, 24, 16]];
    let [d, e, f] = [[6, 12, 8], [3, 6, 4], [2, 3, 2]];
    assert_eq!(shapes, [a, b, c, d, e, f, [1, 12, 8], [1, 12, 8]]);
    let Origin::Merged { from } = network.levels[6].origin else { panic!() };
    let from = from.map(|source| source.map(|of| (of.level, of.scale)));
    assert_eq!(from, [Some((3, 1)), Some((4, 2)), Some((5, 4))]);
    assert_eq!(network.last_level(), 7);
    let names: Vec<&str> = network.site_outputs.iter().map(|output| &*output.name).collect();
    let of_task = ["hm", "center", "center_z", "dim", "rot", "vel", "iou"];
    let expected: Vec<String> =
        [0, 1].iter().flat_map(|task| of_task.map(|name| format!("{name}_{task}"))).collect();
    assert_eq!(names, expected);
    let specs = network.site_specs();
    assert_eq!(specs[7].to_string(), "hm_1 f32 [?, 2]");
    let text = Plan::new(network.clone(), &network.default_capacities(1000)).unwrap().listing();
    assert!(text.contains("under levels 3 times 1, 4 times 2, 5 times 4"), "{text}");
    assert!(text.contains("outputs on the sites of level 7: hm_0 [sites, 1], center_0"), "{text}");
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let original = SMALL.file();
    let at = merge_of(&original);
    let cases: [(&str, fn(&mut File, usize)); 12] = [
        ("attribute scales is [1, 2]; one for each of 3 inputs", |file, at| {
            file.nodes[at].set("scales", Attr::Ints(vec![1, 2]));
        }),
        ("has no place on a plane", |file, at| {
            file.nodes[at].set("scales", Attr::Ints(vec![1, 0, 4]));
        }),
        ("attribute scales has a scale of -2", |file, at| {
            file.nodes[at].set("scales", Attr::Ints(vec![1, -2, 4]));
        }),
        ("a scale of 9 has no place", |file, at| {
            file.nodes[at].set("scales", Attr::Ints(vec![1, 2, 9]));
        }),
        ("no place on a plane of 1x[2, 12, 8]", |file, at| {
            file.nodes[at].set("output_spatial_shape", Attr::Ints(vec![2, 12, 8]));
        }),
        ("no place on a plane of 1x[1, 11, 8]", |file, at| {
            file.nodes[at].set("output_spatial_shape", Attr::Ints(vec![1, 11, 8]));
        }),
        ("attribute unknown is unknown", |file, at| {
            file.nodes[at].attributes.push(("unknown", Attr::Int(1)));
        }),
        ("an input comes twice", |file, at| {
            file.nodes[at].inputs[2] = file.nodes[at].inputs[1].clone();
        }),
        ("inputs exceed the limit of 3", |file, at| {
            let more = file.nodes[at - 1].outputs[0].clone();
            file.nodes[at].inputs.push(more);
        }),
        ("two outputs have this name", |file, _| {
            let first = file.outputs[0].clone();
            file.outputs.push(first);
        }),
        ("output hm_1 is [None, Some(3)]; [sites, 2] is expected", |file, _| {
            file.outputs[7].1[1] = 3;
        }),
        ("its output is not used", |file, _| {
            file.outputs.pop();
        }),
    ];
    for (expected, change) in cases {
        let mut file = original.clone();
        change(&mut file, at);
        let text = refusal(&file);
        assert!(text.contains(expected), "{text}");
    }
    // An output of an earlier level, and a map beside outputs on sites.
    let mut earlier = original.clone();
    let name = earlier.nodes[at].inputs[0].clone();
    earlier.outputs.push((name.clone(), vec![-1, 6]));
    assert!(refusal(&earlier).contains("is at another level than output hm_0"));
    let mut both = original.clone();
    both.scatter_dense(&name, "dense", "zyx", [6, 6, 12, 8]);
    both.op("Reshape", &["dense"], "map", vec![("dims", Attr::Ints(vec![1, 36, 12, 8]))]);
    both.outputs.push(("map".into(), vec![1, 36, 12, 8]));
    assert!(refusal(&both).contains("a map has to be the only one"));
}

#[test]
fn a_map_and_outputs_on_sites_are_kept_apart() {
    let network = read(&SMALL.file());
    let capacities = network.default_capacities(100);
    let mut map = Tensor::zeros(ElementType::F32, &network.map_shape()).unwrap();
    let plan = Plan::new(network, &capacities).unwrap();
    assert_eq!(plan.memory(4).map, 0);
    let mut encoder = CpuEncoder::new(plan, Precision::F32, 1).unwrap();
    let error = encoder.run(&[], &[], &mut map).unwrap_err();
    assert!(error.message().contains("ends on sites"), "{error}");
    encoder.run_on_sites(&[], &[]).unwrap();
    assert_eq!(encoder.site_output(0), Some(&[][..]));
    assert_eq!(encoder.site_output(14), None);
}

/// A merged level may lead to a map, as any other.
#[test]
fn merged_levels_may_end_in_a_map() {
    let mut file = SMALL.file();
    let at = merge_of(&file);
    file.nodes.truncate(at + 1);
    let merged = file.nodes[at].outputs[0].clone();
    file.scatter_dense(&merged, "dense", "zyx", [6, 1, 12, 8]);
    file.op("Reshape", &["dense"], "map", vec![("dims", Attr::Ints(vec![1, 6, 12, 8]))]);
    file.outputs = vec![("map".into(), vec![1, 6, 12, 8])];
    let network = read(&file);
    assert_eq!(network.map_shape(), [1, 6, 12, 8]);
    let (cells, features) = voxels(&mut Random::new(5), SMALL.grid, 60, SMALL.num_features);
    let expected = plainly(&network, &cells, &features);
    let sums = &expected[network.map.input];
    let capacities = network.default_capacities(10_000);
    let mut map = Tensor::zeros(ElementType::F32, &network.map_shape()).unwrap();
    let plan = Plan::new(network, &capacities).unwrap();
    CpuEncoder::new(plan, Precision::F32, 1).unwrap().run(&cells, &features, &mut map).unwrap();
    let Tensor::F32 { values, .. } = map else { panic!() };
    let at = |c: usize, y: usize, x: usize| {
        let features = sums.get(&[0, y as i32, x as i32]);
        features.map_or(0.0, |features| features[c] as f32)
    };
    let dense: Vec<f32> = (0..6 * 12 * 8).map(|i| at(i / 96, i / 8 % 12, i % 8)).collect();
    assert_close(&values, &dense, "the map");

    // The axes x y z have no plane of z.
    let node = file.nodes.len() - 2;
    file.nodes[node].set("format", Attr::Text("xyz"));
    assert!(refusal(&file).contains("levels are merged along z of z y x"));
}

/// The features of sites by cell.
type Features = BTreeMap<[i32; 3], Vec<f64>>;

/// Every tensor of a network, computed in f64 as spconv defines the operations, cell by cell.
fn plainly(network: &SparseNetwork, cells: &[[i32; 4]], features: &[f32]) -> Vec<Features> {
    let num_features = network.input_channels();
    let rows = features.chunks_exact(num_features);
    let input = cells.iter().zip(rows).map(|(&[_, z, y, x], row)| {
        ([z, y, x], row.iter().map(|&value| f64::from(value)).collect())
    });
    let mut tensors: Vec<Features> = vec![input.collect()];
    for operation in &network.operations {
        let shape = network.levels[network.tensors[operation.output].level].shape;
        let written = match &operation.operator {
            Operator::Convolution(of) => {
                let input = &tensors[of.input];
                let sites: Vec<[i32; 3]> = match of.mode {
                    Mode::Submanifold => input.keys().copied().collect(),
                    _ => strided_sites(input, &of.geometry, shape),
                };
                let geometry = match of.mode {
                    Mode::Submanifold => {
                        let padding = of.geometry.kernel.map(|taps| taps / 2);
                        Geometry { padding, ..of.geometry }
                    }
                    _ => of.geometry,
                };
                let sum = |site: [i32; 3]| {
                    convolved(input, site, &geometry, &of.weight, of.bias.as_deref())
                };
                sites.into_iter().map(|site| (site, sum(site))).collect()
            }
            Operator::Add { inputs: [a, b] } => {
                let sum = |(site, row): (&[i32; 3], &Vec<f64>)| {
                    let other = &tensors[*b][site];
                    (*site, row.iter().zip(other).map(|(a, b)| a + b).collect())
                };
                tensors[*a].iter().map(sum).collect()
            }
            Operator::Relu { input } => {
                let relu = |(site, row): (&[i32; 3], &Vec<f64>)| {
                    (*site, row.iter().map(|value| value.max(0.0)).collect())
                };
                tensors[*input].iter().map(relu).collect()
            }
            Operator::Merge { inputs } => {
                let mut merged = Features::new();
                for (input, scale) in inputs.iter().flatten().zip([1, 2, 4]) {
                    for (&[_, y, x], row) in &tensors[*input] {
                        let sums = merged
                            .entry([0, scale * y, scale * x])
                            .or_insert_with(|| vec![0.0; row.len()]);
                        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
                    }
                }
                merged
            }
            Operator::MaxPool { .. } => panic!("{}", operation.name),
        };
        tensors.push(written);
    }
    tensors
}

/// Every cell of a grid with an active one under the kernel.
fn strided_sites(input: &Features, geometry: &Geometry, shape: [u32; 3]) -> Vec<[i32; 3]> {
    let mut sites = Vec::new();
    for z in 0..shape[0] as i32 {
        for y in 0..shape[1] as i32 {
            for x in 0..shape[2] as i32 {
                let mut under = taps(geometry).map(|tap| under([z, y, x], geometry, tap));
                if under.any(|cell| input.contains_key(&cell)) {
                    sites.push([z, y, x]);
                }
            }
        }
    }
    sites
}

fn taps(geometry: &Geometry) -> impl Iterator<Item = [i32; 3]> {
    let [k0, k1, k2] = geometry.kernel.map(|taps| taps as i32);
    (0..k0 * k1 * k2).map(move |tap| [tap / (k1 * k2), tap / k2 % k1, tap % k2])
}

fn under(site: [i32; 3], geometry: &Geometry, tap: [i32; 3]) -> [i32; 3] {
    std::array::from_fn(|axis| {
        let [stride, padding] = [geometry.stride, geometry.padding].map(|of| of[axis] as i32);
        site[axis] * stride - padding + tap[axis]
    })
}

fn convolved(
    input: &Features,
    site: [i32; 3],
    geometry: &Geometry,
    weight: &[f32],
    bias: Option<&[f32]>,
) -> Vec<f64> {
    let num_taps = geometry.num_taps();
    let bias = bias.unwrap();
    let mut sums: Vec<f64> = bias.iter().map(|&value| f64::from(value)).collect();
    let num_inputs = weight.len() / num_taps / bias.len();
    for (number, tap) in taps(geometry).enumerate() {
        let Some(row) = input.get(&under(site, geometry, tap)) else { continue };
        for (output, sum) in sums.iter_mut().enumerate() {
            let weights = &weight[(output * num_taps + number) * num_inputs..][..num_inputs];
            *sum += weights.iter().zip(row).map(|(&w, x)| f64::from(w) * x).sum::<f64>();
        }
    }
    sums
}

#[test]
fn outputs_are_what_the_operations_say_in_f64() {
    let network = read(&SMALL.file());
    let (cells, features) = voxels(&mut Random::new(6), SMALL.grid, 90, SMALL.num_features);
    let expected = plainly(&network, &cells, &features);
    let capacities = network.default_capacities(10_000);
    let plan = Plan::new(network.clone(), &capacities).unwrap();
    let mut encoder = CpuEncoder::new(plan, Precision::F32, 2).unwrap();
    // What a frame leaves makes no difference to the next.
    for num in [90, 0, 1, 90] {
        let features = &features[..num * SMALL.num_features];
        encoder.run_on_sites(&cells[..num], features).unwrap();
        let levels = encoder.counts().levels.iter();
        assert!(levels.clone().all(|level| level.num_over_capacity == 0));
        assert_eq!(encoder.last_sites().len() > 0, num > 0);
    }
    for (position, output) in network.site_outputs.iter().enumerate() {
        let expected = &expected[output.tensor];
        let [_, _, columns] = network.levels[network.last_level()].shape;
        let sites: Vec<u32> =
            expected.keys().map(|[_, y, x]| *y as u32 * columns + *x as u32).collect();
        assert_eq!(encoder.last_sites().indices(), sites);
        let rows: Vec<f32> = expected.values().flatten().map(|&value| value as f32).collect();
        assert_close(encoder.site_output(position).unwrap(), &rows, &output.name);
    }
}

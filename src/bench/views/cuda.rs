//! DETR3D decoders as one graph each.

use std::sync::Arc;

use half::f16;

use super::network::{MapElement, maps, network, views};
use crate::bench::case::{Case, wall};
use crate::bench::measure::Bench;
use crate::device::cuda::{CudaDevice, Stream};
use crate::error::Result;
use crate::infer::view_decoder::detr3d::{Activation, CudaDecoder, Network};
use crate::ops::view_sample::cuda::DeviceFeatureMaps;

/// Blocks, queries, and the bars of one H200 in f32, f16 and f16 with int8 maps.
const ROWS: [(usize, usize, [f64; 3]); 3] = [
    (4, 512, [350.0, 110.0, 105.0]),
    (6, 512, [500.0, 150.0, 140.0]),
    (6, 900, [900.0, 220.0, 200.0]),
];

pub(super) fn cases(bench: &mut Bench<'_>, device: &CudaDevice) -> Result<()> {
    let stream = &device.stream()?;
    for (num_blocks, num_queries, bars) in ROWS {
        let elements = [MapElement::F32, MapElement::F16, MapElement::Int8];
        for (element, bar) in elements.into_iter().zip(bars) {
            let precision = match element {
                MapElement::F32 => "f32",
                MapElement::F16 => "f16",
                MapElement::Int8 => "f16, int8 maps",
            };
            let name = format!(
                "views detr3d {num_blocks} blocks, {num_queries} queries, 6 cameras {precision}"
            );
            if !bench.wants(&name) {
                continue;
            }
            let case = Case::new(name).with_bar(wall(None, bar));
            let network = network(num_blocks, num_queries)?;
            match element {
                MapElement::F32 => decoder::<f32>(bench, case, stream, network, element)?,
                MapElement::F16 | MapElement::Int8 => {
                    decoder::<f16>(bench, case, stream, network, element)?;
                }
            }
        }
    }
    Ok(())
}

/// From maps in place to boxes and logits on the host.
fn decoder<T: Activation>(
    bench: &mut Bench<'_>,
    case: Case,
    stream: &Stream,
    network: Arc<Network>,
    element: MapElement,
) -> Result<()> {
    let maps = DeviceFeatureMaps::from_host(stream, &maps(element)?)?;
    let mut decoder = CudaDecoder::<T>::new(stream, network)?;
    decoder.set_views(&views())?;
    let graph = decoder.record(&maps)?;
    bench.device(case, stream, || graph.enqueue(), || decoder.results().map(|_| ()))
}

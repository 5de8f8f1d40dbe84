//! Unpacking the clouds of several LiDARs: one cloud of all points beside four, moved, and four,
//! moved and deskewed.

use nalgebra::{Isometry3, Translation3, UnitQuaternion};

use super::scan;
use crate::bench::case::Case;
use crate::bench::measure::Bench;
use det_post_ops::cloud::unpack::placement::{NUM_KNOTS, Placement, Sweep, rows_of};
use det_post_ops::cloud::unpack::{UnpackParams, append, unpack};
use det_post_types::{
    CloudView, Datatype, PointChannel, PointField, PointFields, PointRange, Points, Result,
    TimeField,
};

const NUM_CLOUDS: usize = 4;
const NUM_POINTS: usize = 60_000;
const TOTAL: usize = NUM_CLOUDS * NUM_POINTS;
/// Bytes of a point: x, y, z, intensity, time.
const STEP: u32 = 20;

const ONE: &str = "unpack 240k points";
const MOVED: &str = "unpack 4 x 60k points, moved";
const DESKEWED: &str = "unpack 4 x 60k points, moved and deskewed";
const CASES: [&str; 3] = [ONE, MOVED, DESKEWED];

fn params() -> UnpackParams {
    let range = PointRange { min: [-76.8, -76.8, -4.0], max: [76.8, 76.8, 6.0] };
    let channels = vec![PointChannel::Intensity];
    UnpackParams { channels, intensity_scale: 1.0, range: Some(range) }
}

/// All points as messages have them: a sweep of 0.1 s.
fn messages() -> Vec<u8> {
    let points = scan();
    let mut data = Vec::with_capacity(TOTAL * STEP as usize);
    for (index, point) in points.iter().cycle().take(TOTAL).enumerate() {
        let share = (index % NUM_POINTS) as f32 / NUM_POINTS as f32;
        let values = point.iter().copied().chain([0.1 * share - 0.05]);
        data.extend(values.flat_map(f32::to_le_bytes));
    }
    data
}

fn fields() -> Result<PointFields<'static>> {
    let mut fields = PointFields::new();
    for (name, offset) in [("x", 0), ("y", 4), ("z", 8), ("intensity", 12), ("time", 16)] {
        fields.push(PointField { name, offset, datatype: 7, count: 1 })?;
    }
    Ok(fields)
}

fn view(data: &[u8]) -> Result<CloudView<'_>> {
    let num = data.len() as u32 / STEP;
    CloudView::new([num, 1], [STEP, num * STEP], false, fields()?, data)
}

/// The clouds of a case, and where their points go.
fn parts<'a>(case: &str, data: &'a [u8]) -> Result<Vec<(CloudView<'a>, Placement)>> {
    if case == ONE {
        return Ok(vec![(view(data)?, Placement::default())]);
    }
    let rows = |turn: f64, x: f64| {
        let turn = UnitQuaternion::from_euler_angles(0.01, 0.02, turn);
        let to = Isometry3::from_parts(Translation3::new(x, 0.5, 1.8), turn);
        rows_of(&to.to_homogeneous().fixed_rows::<3>(0).into_owned())
    };
    let clouds = data.chunks(NUM_POINTS * STEP as usize).zip(0..);
    clouds
        .map(|(data, index)| {
            let turn = f64::from(index);
            let times = TimeField { offset: 16, datatype: Datatype::F32, base: 0.0, unit_s: 1.0 };
            let knots =
                std::array::from_fn(|knot| rows(turn + 0.006 * knot as f64, 0.2 * knot as f64));
            let knots_per_s = 10.0 * (NUM_KNOTS - 1) as f32;
            let sweep = Sweep { times, first_s: -0.05, knots_per_s, knots };
            let placement = Placement {
                rows: Some(rows(turn, 0.0)),
                sweep: (case == DESKEWED).then_some(sweep),
                crop: Some(PointRange { min: [-1.0, -1.0, -1.0], max: [4.0, 1.0, 2.0] }),
            };
            Ok((view(data)?, placement))
        })
        .collect()
}

/// On the CPU.
pub(super) fn cases(bench: &mut Bench<'_>) -> Result<()> {
    for name in CASES {
        if !bench.wants(name) {
            continue;
        }
        let (data, params) = (messages(), params());
        let parts = parts(name, &data)?;
        let mut out = Points::with_capacity(4, TOTAL);
        bench.host(Case::new(name), || {
            if let [(cloud, _)] = &parts[..] {
                return unpack(cloud, &params, &mut out).map(drop);
            }
            out.clear();
            parts.iter().try_for_each(|(cloud, placement)| {
                append(cloud, &params, placement, &mut out).map(drop)
            })
        })?;
    }
    Ok(())
}

/// On a GPU, from the uploaded clouds.
#[cfg(feature = "cuda")]
pub(super) fn on_gpu(
    bench: &mut Bench<'_>,
    stream: &det_post_ops::device::cuda::Stream,
) -> Result<()> {
    use det_post_ops::cloud::unpack::cuda::{CloudCounts, Part, Workspace};
    use det_post_ops::cloud::{DeviceCloud, DevicePoints, num_bytes};
    use det_post_ops::shared::DeviceCounters;

    for name in CASES {
        if !bench.wants(name) {
            continue;
        }
        let (data, params) = (messages(), params());
        let parts = parts(name, &data)?;
        let mut clouds = Vec::new();
        for (view, _) in &parts {
            let mut cloud = DeviceCloud::with_capacity(stream, num_bytes(view))?;
            cloud.enqueue_upload(view)?;
            clouds.push(cloud);
        }
        let mut workspace = Workspace::new(stream, TOTAL)?;
        let mut out = DevicePoints::with_capacity(stream, 4, TOTAL)?;
        let mut counters = DeviceCounters::new(stream)?;
        let mut counts = CloudCounts::new(stream, parts.len())?;
        let has_counts = parts.len() > 1;
        let mut enqueue = || -> Result<()> {
            let counts = Some(&mut counts).filter(|_| has_counts);
            let mut batch = workspace.batch(&params, &mut out, &mut counters, counts)?;
            for (index, ((view, placement), cloud)) in parts.iter().zip(&clouds).enumerate() {
                batch.add(&Part { cloud, fields: view.fields(), placement, index })?;
            }
            batch.enqueue()
        };
        // Loads kernels and allocates, which a recording cannot.
        enqueue()?;
        bench.recorded(Case::new(name), stream, enqueue)?;
    }
    Ok(())
}

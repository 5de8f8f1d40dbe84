//! A spinning LiDAR of 64 beams.
//!
//! A scan is one counter-clockwise revolution that starts facing backward. The
//! stamp of a scan is its middle, when it faces forward. Each column is cast from
//! the pose of the sensor at the column's time, at actors in their poses of that
//! time. Points are in the sensor's frame at the stamp: ego motion is
//! compensated, as drivers with a fixed frame do; the motion of actors is not. Where a drive has
//! moving scans, recordings have each point in the sensor's frame at the point's time instead.

use nalgebra::{Matrix3, Vector2, Vector3};

use super::cast::{ActorMotion, CHUNKS, Column, Hits, MAX_RANGE_M, NUM_BEAMS, azimuths, cast};
use super::drive::{Drive, Stream};
use super::ground::Cover;
use super::random::{bits, key, normal, unit};
use super::rig::{LidarMount, SCAN_S, pose_of};
use super::scene::{Scene, View};
use super::solid::{LANES, surface_point};
use super::traffic::PAVEMENT_HEIGHT_M;
use det_post_types::{Box3d, Evidence, Truth3d};

/// The truth in space lists objects up to this distance from the sensor, or from the vehicle.
pub const TRUTH_RANGE_M: f64 = 75.0;

const MIN_RANGE_M: f32 = 0.8;
const RANGE_NOISE_M: f32 = 0.018;
const NO_HIT: u32 = u32::MAX;
const GROUND: u32 = u32::MAX - 1;

/// A point of a scan, in the sensor's frame at the stamp.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScanPoint {
    /// x (ahead), y (left), z (up) in metres.
    pub position: [f32; 3],
    /// The same in the sensor's frame at the time of measurement.
    pub measured: [f32; 3],
    /// Intensity of the echo, 0 to 255.
    pub intensity: f32,
    /// Its beam, 0 the lowest.
    pub ring: u16,
    /// Time of measurement, seconds from the stamp; negative before it.
    pub time_s: f32,
    /// The object that it belongs to; 0 for none.
    pub track_id: u32,
}

/// One scan and its ground truth. The next scan reuses its memory.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// The points, column by column in the order of time, each column from the
    /// lowest beam upward.
    pub points: Vec<ScanPoint>,
    /// All objects within [`TRUTH_RANGE_M`], ordered by track id.
    pub truth: Vec<Truth3d<'static>>,
    scene: Scene,
    columns: Vec<Vec<u32>>,
    parts: Vec<Part>,
}

/// The output of one thread: the points of consecutive columns, and the ray
/// counts of each actor in the scene.
#[derive(Clone, Debug, Default)]
struct Part {
    points: Vec<ScanPoint>,
    rays: Vec<RayCount>,
}

/// Ray counts of one actor.
#[derive(Clone, Copy, Debug, Default)]
struct RayCount {
    /// Rays that hit it when occlusion is ignored.
    unoccluded: u32,
    /// Rays that hit it.
    visible: u32,
    /// Rays that hit it and return an echo.
    returned: u32,
}

impl Drive {
    /// Scan `index` of a LiDAR.
    ///
    /// # Panics
    /// When the drive has no such LiDAR.
    pub fn cloud(&self, lidar: usize, index: u64, scan: &mut Scan) {
        let mount = self.rig.lidars[lidar];
        let time_s = self.rig.scan_time_s(index);
        let view = lidar_view(self, &mount, time_s);
        let max_range_m = f64::from(MAX_RANGE_M);
        scan.scene.gather(self.world(), &view, time_s, max_range_m);
        let num_columns = self.rig.num_columns;
        let caster = Caster {
            drive: self,
            mount: &mount,
            view: &view,
            scene: &scan.scene,
            time_s,
            key: key(&[self.seed, Stream::Lidar as u64, lidar as u64, index]),
            motions: scan
                .scene
                .actors
                .iter()
                .map(|present| {
                    let state = &present.state;
                    let velocity = Vector3::new(state.velocity.x, state.velocity.y, 0.0);
                    ActorMotion {
                        center: view.direction(state.position - view.origin),
                        velocity: view.direction(velocity),
                        yaw_rate: state.yaw_rate as f32,
                    }
                })
                .collect(),
        };
        caster.assign_columns(num_columns, &mut scan.columns);

        let num_threads = self.num_threads.min(num_columns);
        let per_thread = num_columns.div_ceil(num_threads);
        scan.parts.resize_with(num_threads, Part::default);
        let columns = &scan.columns;
        std::thread::scope(|scope| {
            for (i, part) in scan.parts.iter_mut().enumerate() {
                let caster = &caster;
                let range = i * per_thread..((i + 1) * per_thread).min(num_columns);
                let work = move || {
                    part.points.clear();
                    part.rays.clear();
                    part.rays.resize(caster.scene.actors.len(), RayCount::default());
                    for column in range {
                        caster.cast_column(column, num_columns, &columns[column], part);
                    }
                };
                if i + 1 == num_threads { work() } else { drop(scope.spawn(work)) }
            }
        });
        scan.points.clear();
        scan.parts.iter().for_each(|part| scan.points.extend_from_slice(&part.points));
        scan.truth.clear();
        scan.truth.extend(scan.scene.actors.iter().enumerate().filter_map(|(i, present)| {
            let mut rays = RayCount::default();
            for part in &scan.parts {
                rays.unoccluded += part.rays[i].unoccluded;
                rays.visible += part.rays[i].visible;
                rays.returned += part.rays[i].returned;
            }
            let object = self.object_3d(present.actor, &present.state, &view)?;
            let visibility = if rays.unoccluded > 0 {
                rays.visible as f32 / rays.unoccluded as f32
            } else {
                0.0
            };
            Some(Truth3d { evidence: Evidence::Points(rays.returned), visibility, ..object })
        }));
    }

    /// An actor in the frame of a LiDAR or of the vehicle; `None` beyond [`TRUTH_RANGE_M`].
    pub(super) fn object_3d(
        &self,
        actor: usize,
        state: &super::traffic::State,
        view: &View,
    ) -> Option<Truth3d<'static>> {
        let actor = &self.traffic.actors[actor];
        let [length, width, height] = actor.body.size_m;
        let middle = state.position + Vector3::new(0.0, 0.0, 0.5 * height);
        let center = view.sensor_from_map * (middle - view.origin);
        if center.xy().norm() > TRUTH_RANGE_M {
            return None;
        }
        let level = |v: Vector2<f64>| view.sensor_from_map * Vector3::new(v.x, v.y, 0.0);
        let (heading, velocity) = (level(state.heading), level(state.velocity));
        Some(Truth3d {
            class_name: actor.body.class.name(),
            track_id: actor.track_id,
            bbox: Box3d {
                center: [center.x as f32, center.y as f32, center.z as f32],
                length_m: length as f32,
                width_m: width as f32,
                height_m: height as f32,
                yaw_rad: libm::atan2(heading.y, heading.x) as f32,
            },
            velocity_mps: [velocity.x as f32, velocity.y as f32],
            evidence: Evidence::Points(0),
            visibility: 0.0,
        })
    }
}

/// The view of a LiDAR at a time.
pub(super) fn lidar_view(drive: &Drive, mount: &LidarMount, time_s: f64) -> View {
    let ego = drive.traffic.ego(&drive.route, time_s);
    let (origin, heading) = pose_of(&ego, mount.position_m, mount.yaw_rad);
    let (cos, sin) = (heading.x, heading.y);
    let sensor_from_map = Matrix3::new(cos, sin, 0.0, -sin, cos, 0.0, 0.0, 0.0, 1.0);
    View { origin, sensor_from_map }
}

/// What the rays of a column hit.
#[derive(Clone, Copy)]
struct Seen<'a> {
    column: &'a Column,
    hits: &'a Hits,
    /// Cosine and sine of its azimuth, from the sensor.
    azimuth: [f32; 2],
}

struct Caster<'a> {
    drive: &'a Drive,
    mount: &'a LidarMount,
    view: &'a View,
    scene: &'a Scene,
    time_s: f64,
    key: u64,
    /// Per actor in the scene.
    motions: Vec<ActorMotion>,
}

impl Caster<'_> {
    /// Lists for every column the solids that its rays may hit, in the order of
    /// the scene.
    fn assign_columns(&self, num_columns: usize, columns: &mut Vec<Vec<u32>>) {
        columns.resize_with(num_columns, Vec::new);
        columns.iter_mut().for_each(Vec::clear);
        let ego = self.drive.traffic.ego(&self.drive.route, self.time_s);
        let half_scan = 0.5 * SCAN_S;
        for (index, target) in self.scene.targets.iter().enumerate() {
            let own = self.scene.owner(index).map(|present| &self.motions[present]);
            let (speed, turn) = own.map_or((0.0, 0.0), |motion| {
                (f64::from(motion.velocity.norm()), f64::from(motion.yaw_rate.abs()))
            });
            let shift = half_scan * (speed + ego.velocity.norm() + 6.0 * turn) + 0.05;
            let turn = half_scan * ego.yaw_rate.abs();
            let per_radian = num_columns as f64 / std::f64::consts::TAU;
            match azimuths(target, shift) {
                None => columns.iter_mut().for_each(|column| column.push(index as u32)),
                Some([low, high]) => {
                    let column = |azimuth: f64| (azimuth + std::f64::consts::PI) * per_radian;
                    let first = (column(low - turn) - 0.5).floor() as i64;
                    let last = (column(high + turn) + 0.5).ceil() as i64;
                    for at in first..=last.min(first + num_columns as i64 - 1) {
                        let at = at.rem_euclid(num_columns as i64) as usize;
                        columns[at].push(index as u32);
                    }
                }
            }
        }
    }

    fn cast_column(&self, index: usize, num_columns: usize, list: &[u32], part: &mut Part) {
        let share = (index as f64 + 0.5) / num_columns as f64;
        let time_s = (share - 0.5) * SCAN_S;
        let view = lidar_view(self.drive, self.mount, self.time_s + time_s);
        let (sin, cos) = libm::sincos((share - 0.5) * std::f64::consts::TAU);
        let ahead_map = view.sensor_from_map.transpose() * Vector3::new(cos, sin, 0.0);
        let column = Column {
            origin: self.view.direction(view.origin - self.view.origin),
            ahead: self.view.direction(ahead_map),
            time_s: time_s as f32,
        };
        let mut hits =
            Hits { range: [[MAX_RANGE_M; LANES]; CHUNKS], solid: [[NO_HIT; LANES]; CHUNKS] };
        let fixed = list.partition_point(|&target| (target as usize) < self.scene.num_fixed);
        let beams = &self.drive.beams;
        cast(self.scene, &list[..fixed], beams, &column, &mut hits);
        self.cast_ground(&view, &ahead_map.xy(), &mut hits);
        let mut rest = &list[fixed..];
        while let Some(&first) = rest.first() {
            let Some(owner) = self.scene.owner(first as usize) else { break };
            let num = rest.partition_point(|&t| (t as usize) < self.scene.actors[owner].end);
            let moved = column.relative_to(&self.motions[owner]);
            let unoccluded = cast(self.scene, &rest[..num], beams, &moved, &mut hits);
            part.rays[owner].unoccluded += unoccluded.count_ones();
            rest = &rest[num..];
        }
        let seen = Seen { column: &column, hits: &hits, azimuth: [cos as f32, sin as f32] };
        self.collect(index, &seen, part);
    }

    fn cast_ground(&self, view: &View, ahead: &Vector2<f64>, hits: &mut Hits) {
        let beams = &self.drive.beams;
        let height = view.origin.z;
        for beam in 0..NUM_BEAMS {
            let (chunk, lane) = (beam / LANES, beam % LANES);
            let (cos, sin) = (f64::from(beams.cos[chunk][lane]), f64::from(beams.sin[chunk][lane]));
            if sin >= 0.0 {
                break;
            }
            let nearest = f64::from(hits.range[chunk][lane]);
            if (height - PAVEMENT_HEIGHT_M) / -sin > nearest {
                continue;
            }
            let at = |range: f64| view.origin.xy() + ahead * (cos * range);
            let met = self.drive.ground.intersect(height, -sin, cos, at);
            if met.distance < nearest {
                hits.range[chunk][lane] = met.distance as f32;
                hits.solid[chunk][lane] = GROUND;
            }
        }
    }

    /// Turns hits into points.
    fn collect(&self, index: usize, seen: &Seen<'_>, part: &mut Part) {
        let Seen { column, hits, azimuth: [ahead, left] } = *seen;
        let beams = &self.drive.beams;
        for beam in 0..NUM_BEAMS {
            let (chunk, lane) = (beam / LANES, beam % LANES);
            let (range, what) = (hits.range[chunk][lane], hits.solid[chunk][lane]);
            if what == NO_HIT || range < MIN_RANGE_M {
                continue;
            }
            let ray = column.ahead * beams.cos[chunk][lane] + Vector3::z() * beams.sin[chunk][lane];
            let owner = if what == GROUND { None } else { self.scene.owner(what as usize) };
            let (reflectivity, loss, depth_m, facing) = match what {
                GROUND => {
                    let point = column.origin + ray * range;
                    let in_map =
                        self.view.origin + self.view.sensor_from_map.tr_mul(&point.map(f64::from));
                    (self.ground_reflectivity(&in_map), 0.01, 0.0, beams.sin[chunk][lane].abs())
                }
                _ => {
                    let target = &self.scene.targets[what as usize];
                    let seen =
                        owner.map_or(*column, |owner| column.relative_to(&self.motions[owner]));
                    let ray =
                        seen.ahead * beams.cos[chunk][lane] + Vector3::z() * beams.sin[chunk][lane];
                    let point = surface_point(target, &(seen.origin + ray * range));
                    let echo = self.scene.solids[what as usize].material.echo(&point);
                    (echo.reflectivity, echo.loss, echo.depth_m, point.normal.dot(&ray).abs())
                }
            };
            if let Some(owner) = owner {
                part.rays[owner].visible += 1;
            }
            let counter = 2 * (index * NUM_BEAMS + beam) as u64;
            let (chance, spread) = (bits(self.key, counter), bits(self.key, counter + 1));
            // Intensity falls with the distance; weak echoes are often lost.
            let strength = reflectivity * (0.25 + 0.75 * facing);
            let share = range / MAX_RANGE_M;
            let weak = share * share * 0.06 / strength.max(0.01);
            if unit(chance) < loss + weak {
                continue;
            }
            let range = range + RANGE_NOISE_M * normal(spread) + depth_m * unit(chance >> 24);
            let grain = 1.0 + 0.08 * normal(spread.rotate_left(23));
            let intensity = (strength * grain * 200.0).clamp(1.0, 255.0).floor();
            let position = column.origin + ray * range;
            let track_id = owner.map_or(0, |owner| {
                part.rays[owner].returned += 1;
                self.drive.traffic.actors[self.scene.actors[owner].actor].track_id
            });
            part.points.push(ScanPoint {
                position: position.into(),
                measured: {
                    let (cos, sin) = (beams.cos[chunk][lane], beams.sin[chunk][lane]);
                    [range * cos * ahead, range * cos * left, range * sin]
                },
                intensity,
                ring: beam as u16,
                time_s: column.time_s,
                track_id,
            });
        }
    }

    fn ground_reflectivity(&self, in_map: &Vector3<f64>) -> f32 {
        let ground = &self.drive.ground;
        let position = in_map.xy();
        let (cover, _): (Cover, f32) =
            ground.cover(position, &ground.nearest_piece(position), 0.05);
        cover.reflectivity()
    }
}

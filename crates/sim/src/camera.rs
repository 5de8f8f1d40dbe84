//! A pinhole camera with a global shutter.
//!
//! An image is rendered in bands of rows: the visible solid of each pixel
//! ([`raster`](super::raster)), its shading, the blur of the lens and the noise
//! of the sensor. A band depends only on its rows, so the image is the same
//! for any number of threads.

use nalgebra::{Vector2, Vector3};

use super::drive::{Drive, Stream};
use super::ground::GroundHit;
use super::lens::{read_out, tone_map};
use super::light::LightDirections;
use super::random::{bits, key};
use super::raster::{Band, NO_SOLID, Pinhole, Rectangle, rasterize};
use super::rig::{CameraMount, pose_of};
use super::scene::{Scene, View};
use super::shadow::ShadowMap;
use super::sky::Sky;
use super::solid::surface_point;
use super::traffic::PAVEMENT_HEIGHT_M;
use det_post_types::{Box2d, Size, Truth2d};

/// Rows of a band.
const BAND_ROWS: usize = 48;
/// The maximum distance of rendered solids.
const MAX_RANGE_M: f64 = 220.0;
/// Edge length of the square in which actors cast shadows.
const SHADOWS_M: f64 = 72.0;
const SHADOW_CELL_M: f64 = 0.125;

/// One image and its ground truth. The next image reuses its memory.
#[derive(Clone, Debug)]
pub struct RenderedImage {
    /// Width and height in pixels.
    pub size: Size,
    /// Red, green, blue, 8 bits each, row by row.
    pub rgb: Vec<u8>,
    /// The visible object of each pixel; 0 for none.
    pub track_ids: Vec<u32>,
    /// All objects with a pixel in the image when occlusion is ignored, ordered
    /// by track id.
    pub truth: Vec<Truth2d<'static>>,
    scene: Scene,
    rectangles: Vec<Rectangle>,
    shadows: ShadowMap,
    sky: Sky,
    workers: Vec<Worker>,
}

impl Default for RenderedImage {
    fn default() -> Self {
        Self {
            size: Size::new(0, 0),
            rgb: Vec::new(),
            track_ids: Vec::new(),
            truth: Vec::new(),
            scene: Scene::default(),
            rectangles: Vec::new(),
            shadows: ShadowMap::default(),
            sky: Sky::default(),
            workers: Vec::new(),
        }
    }
}

/// The memory of one thread.
#[derive(Clone, Debug, Default)]
struct Worker {
    band: Band,
    /// Tone-mapped colours of the band's rows.
    colors: Vec<[f32; 3]>,
    /// Per actor in the scene.
    pixels: Vec<PixelCount>,
}

/// Pixel counts of one actor.
#[derive(Clone, Copy, Debug)]
struct PixelCount {
    /// Pixels that it covers when occlusion is ignored.
    unoccluded: u32,
    /// Pixels in which it is visible.
    visible: u32,
    /// First and last columns and rows of the unoccluded pixels.
    columns: [u32; 2],
    rows: [u32; 2],
}

impl PixelCount {
    const NONE: Self =
        Self { unoccluded: 0, visible: 0, columns: [u32::MAX, 0], rows: [u32::MAX, 0] };

    fn join(&mut self, other: &Self) {
        self.unoccluded += other.unoccluded;
        self.visible += other.visible;
        for (own, other) in [(&mut self.columns, other.columns), (&mut self.rows, other.rows)] {
            *own = [own[0].min(other[0]), own[1].max(other[1])];
        }
    }
}

impl Drive {
    /// Image `index` of a camera.
    ///
    /// # Panics
    /// When the drive has no such camera.
    pub fn image(&self, camera: usize, index: u64, image: &mut RenderedImage) {
        let mount = self.rig.cameras[camera];
        let time_s = self.rig.image_time_s(index);
        let view = camera_view(self, &mount, time_s);
        let pinhole = self.pinhole();
        let (width, height) = (pinhole.width, pinhole.height);
        let RenderedImage { size, rgb, track_ids, truth, scene, rectangles, shadows, sky, workers } =
            image;
        *size = self.rig.image_size;
        rgb.resize(width * height * 3, 0);
        track_ids.resize(width * height, 0);
        scene.gather(self.world(), &view, time_s, MAX_RANGE_M);
        rectangles.clear();
        rectangles.extend(scene.targets.iter().map(|target| Rectangle::around(target, &pinhole)));

        self.cast_shadows(scene, &view, shadows);
        sky.render(&self.light, &view, &pinhole);

        let painter = Painter {
            drive: self,
            view: &view,
            scene,
            rectangles,
            shadows,
            sky,
            pinhole,
            lights: LightDirections {
                sun: view.direction(self.light.sun),
                up: view.direction(Vector3::z()),
            },
            exposure: self.light.exposure(time_s),
            key: key(&[self.seed, Stream::Camera as u64, camera as u64, index]),
        };
        let num_bands = height.div_ceil(BAND_ROWS);
        let num_threads = self.num_threads.clamp(1, num_bands);
        workers.resize_with(num_threads, Worker::default);
        let mut shares: Vec<Vec<_>> = (0..num_threads).map(|_| Vec::new()).collect();
        let out =
            rgb.chunks_mut(BAND_ROWS * width * 3).zip(track_ids.chunks_mut(BAND_ROWS * width));
        for (i, band) in out.enumerate() {
            shares[i % num_threads].push((i * BAND_ROWS, band));
        }
        std::thread::scope(|scope| {
            for (i, (worker, share)) in workers.iter_mut().zip(shares).enumerate() {
                let painter = &painter;
                let work = move || {
                    worker.pixels.clear();
                    worker.pixels.resize(painter.scene.actors.len(), PixelCount::NONE);
                    for (first_row, (rgb, track_ids)) in share {
                        painter.paint(first_row, rgb, track_ids, worker);
                    }
                };
                if i + 1 == num_threads { work() } else { drop(scope.spawn(work)) }
            }
        });
        truth.clear();
        truth.extend((0..scene.actors.len()).filter_map(|present| {
            let mut pixels = PixelCount::NONE;
            workers.iter().for_each(|worker| pixels.join(&worker.pixels[present]));
            painter.object_2d(present, &pixels)
        }));
    }

    /// Casts the shadows of the actors in front of a camera.
    fn cast_shadows(&self, scene: &Scene, view: &View, shadows: &mut ShadowMap) {
        let ahead = view.sensor_from_map.row(2).transpose().xy();
        let middle = view.origin.xy() + ahead * (0.5 * SHADOWS_M - 4.0);
        let half = Vector2::repeat(0.5 * SHADOWS_M);
        shadows.clear([middle - half, middle + half], SHADOW_CELL_M);
        for present in &scene.actors {
            for solid in &scene.solids[present.first..present.end] {
                shadows.add(solid, &self.light.sun);
            }
            shadows.add_ambient_occlusion(&self.traffic.actors[present.actor].body, &present.state);
        }
    }

    fn pinhole(&self) -> Pinhole {
        let Size { width, height } = self.rig.image_size;
        Pinhole {
            focal: self.rig.focal_px() as f32,
            center: self.rig.principal_px().map(|value| value as f32),
            width: width as usize,
            height: height as usize,
        }
    }
}

/// The view of a camera at a time, in its optical frame.
fn camera_view(drive: &Drive, mount: &CameraMount, time_s: f64) -> View {
    let ego = drive.traffic.ego(&drive.route, time_s);
    let (origin, ahead) = pose_of(&ego, mount.position_m, mount.yaw_rad);
    let sensor_from_map =
        nalgebra::Matrix3::new(ahead.y, -ahead.x, 0.0, 0.0, 0.0, -1.0, ahead.x, ahead.y, 0.0);
    View { origin, sensor_from_map }
}

struct Painter<'a> {
    drive: &'a Drive,
    view: &'a View,
    scene: &'a Scene,
    /// Per solid.
    rectangles: &'a [Rectangle],
    /// Of the actors.
    shadows: &'a ShadowMap,
    sky: &'a Sky,
    pinhole: Pinhole,
    lights: LightDirections,
    exposure: f32,
    key: u64,
}

impl Painter<'_> {
    /// Renders the rows from `first_row` on that `rgb` and `track_ids` hold.
    fn paint(&self, first_row: usize, rgb: &mut [u8], track_ids: &mut [u32], worker: &mut Worker) {
        let (width, height) = (self.pinhole.width, self.pinhole.height);
        let num_rows = track_ids.len() / width;
        // One more row on either side, for the blur of the lens.
        let above = usize::from(first_row > 0);
        let below = usize::from(first_row + num_rows < height);
        let Worker { band, colors, pixels } = worker;
        band.clear(first_row - above, above + num_rows + below, width);
        for solid in 0..self.scene.num_fixed {
            rasterize(self.scene, solid, &self.rectangles[solid], &self.pinhole, false, band);
        }
        for (present, pixels) in self.scene.actors.iter().zip(pixels.iter_mut()) {
            let mut around = Rectangle::EMPTY;
            for solid in present.first..present.end {
                rasterize(self.scene, solid, &self.rectangles[solid], &self.pinhole, true, band);
                around.join(&self.rectangles[solid]);
            }
            self.count_unoccluded(&around, first_row..first_row + num_rows, band, pixels);
        }
        self.color(band, colors);
        for row in 0..num_rows {
            let what = &band.solid[(row + above) * width..][..width];
            for (track_id, &solid) in track_ids[row * width..].iter_mut().zip(what) {
                *track_id = 0;
                if let Some(owner) = self.owner(solid) {
                    pixels[owner].visible += 1;
                    let actor = self.scene.actors[owner].actor;
                    *track_id = self.drive.traffic.actors[actor].track_id;
                }
            }
            let out = &mut rgb[row * width * 3..][..width * 3];
            let line = |row: usize| colors[row * width..(row + 1) * width].as_flattened();
            let (here, last) = (row + above, colors.len() / width - 1);
            let lines = [line(here.saturating_sub(1)), line(here), line((here + 1).min(last))];
            read_out(lines, bits(self.key, (first_row + row) as u64), out);
        }
    }

    fn owner(&self, solid: u32) -> Option<usize> {
        if solid == NO_SOLID { None } else { self.scene.owner(solid as usize) }
    }

    /// Counts the marked pixels of `rows` and clears the marks.
    fn count_unoccluded(
        &self,
        around: &Rectangle,
        rows: std::ops::Range<usize>,
        band: &mut Band,
        pixels: &mut PixelCount,
    ) {
        let bytes = self.pinhole.width / 8;
        for row in band.rows_of(around, self.pinhole.width) {
            let at = band.first_row + row;
            let marks = &mut band.unoccluded[row * bytes..(row + 1) * bytes];
            if rows.contains(&at) {
                for (i, &mark) in marks.iter().enumerate().filter(|(_, mark)| **mark != 0) {
                    let first = 8 * i as u32 + mark.trailing_zeros();
                    let last = 8 * i as u32 + 7 - mark.leading_zeros();
                    pixels.join(&PixelCount {
                        unoccluded: mark.count_ones(),
                        visible: 0,
                        columns: [first, last],
                        rows: [at as u32; 2],
                    });
                }
            }
            marks.fill(0);
        }
    }

    /// Shades all pixels of a band.
    fn color(&self, band: &Band, colors: &mut Vec<[f32; 3]>) {
        let width = self.pinhole.width;
        colors.clear();
        for row in 0..band.depth.len() / width {
            let y = self.pinhole.y(band.first_row + row);
            for column in 0..width {
                let direction = Vector3::new(self.pinhole.x(column), y, 1.0);
                let at = row * width + column;
                colors.push(self.color_of(&direction, band.depth[at], band.solid[at]));
            }
        }
        tone_map(colors.as_flattened_mut(), self.exposure);
    }

    fn color_of(&self, direction: &Vector3<f32>, depth: f32, what: u32) -> [f32; 3] {
        let light = &self.drive.light;
        if direction.y > 1e-4 {
            // The pavement is nearer to the camera than the road.
            let height = self.view.origin.z as f32;
            if (height - PAVEMENT_HEIGHT_M as f32) / direction.y < depth
                && let Some(color) = self.ground_color(direction, depth)
            {
                return color;
            }
        }
        let length = direction.norm();
        let ray = direction / length;
        if what == NO_SOLID {
            let in_map = self.view.sensor_from_map.tr_mul(&ray.map(f64::from));
            return light
                .woods(&in_map.map(|value| value as f32))
                .unwrap_or_else(|| self.sky.at(direction, &self.pinhole));
        }
        let (solid, target) =
            (&self.scene.solids[what as usize], &self.scene.targets[what as usize]);
        let point = surface_point(target, &(direction * depth));
        let half = solid.half.map(|value| value as f32);
        let pixel_m = depth / self.pinhole.focal;
        let appearance =
            solid.material.appearance(&point, solid.color, solid.texture, &half, pixel_m);
        // Static objects shade actors but not each other.
        let lit = match self.owner(what) {
            Some(_) => [self.town_shade(&(direction * depth)), 1.0],
            None => [1.0; 2],
        };
        let color = light.shade(&appearance, &point.normal, &ray, &self.lights, lit);
        light.through_haze(color, depth * length)
    }

    /// The share of sunlight at a point that the town leaves, 0 to 1: that where
    /// the sun's ray through the point meets the ground.
    fn town_shade(&self, point: &Vector3<f32>) -> f32 {
        let in_map = self.view.origin + self.view.sensor_from_map.tr_mul(&point.map(f64::from));
        let sun = &self.drive.light.sun;
        self.drive.shadows.light(in_map.xy() - sun.xy() * (in_map.z / sun.z))[0]
    }

    /// The colour of the ground; `None` when it is not in front of `depth`.
    fn ground_color(&self, direction: &Vector3<f32>, depth: f32) -> Option<[f32; 3]> {
        let ground = &self.drive.ground;
        let in_map = self.view.sensor_from_map.tr_mul(&direction.map(f64::from));
        let at = |distance: f64| -> Vector2<f64> { self.view.origin.xy() + in_map.xy() * distance };
        let sink = f64::from(direction.y);
        let level = in_map.xy().norm();
        let GroundHit { distance, nearest, is_kerb } =
            ground.intersect(self.view.origin.z, sink, level, at);
        if distance >= f64::from(depth) {
            return None;
        }
        let position = at(distance);
        let length = direction.norm();
        // At grazing angles the footprint is elongated; this is between its axes.
        let pixel_m = distance as f32 / self.pinhole.focal / direction.y.min(1.0).sqrt();
        let appearance = ground.appearance(position, &nearest, pixel_m);
        let normal =
            if is_kerb { self.lights.up * 0.5 - direction / length * 0.5 } else { self.lights.up };
        let ray = direction / length;
        let light = &self.drive.light;
        let (town, actors) = (self.drive.shadows.light(position), self.shadows.light(position));
        let lit = [town[0].min(actors[0]), actors[1]];
        let color = light.shade(&appearance, &normal, &ray, &self.lights, lit);
        Some(light.through_haze(color, distance as f32 * length))
    }

    fn object_2d(&self, present: usize, pixels: &PixelCount) -> Option<Truth2d<'static>> {
        if pixels.unoccluded == 0 {
            return None;
        }
        let present = &self.scene.actors[present];
        let actor = &self.drive.traffic.actors[present.actor];
        let mut around = Rectangle::EMPTY;
        for solid in present.first..present.end {
            around.join(&self.rectangles[solid]);
        }
        let inside = around.clipped(&self.pinhole).area() / around.area();
        let ([left, right], [top, bottom]) = (pixels.columns, pixels.rows);
        Some(Truth2d {
            class_name: actor.body.class.name(),
            track_id: actor.track_id,
            bbox: Box2d::new(left as f32, top as f32, right as f32 + 1.0, bottom as f32 + 1.0),
            visibility: pixels.visible as f32 / pixels.unoccluded as f32,
            truncation: (1.0 - inside).clamp(0.0, 1.0),
            num_pixels: pixels.visible,
        })
    }
}

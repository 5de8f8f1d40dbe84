//! The drive: three seconds of images and scans of things that move, made
//! only from numbers and the same every time.

/// Frames, one every [`PERIOD_NS`].
pub const NUM_FRAMES: usize = 30;
/// Nanoseconds from one frame to the next.
pub const PERIOD_NS: i64 = 100_000_000;
/// Stamp of the first frame.
pub const START_NS: i64 = 1_700_000_000_000_000_000;
/// Width of an image in pixels.
pub const WIDTH: usize = 640;
/// Height of an image in pixels.
pub const HEIGHT: usize = 360;

/// What is to be seen in an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patch {
    /// 0 car, 1 pedestrian, 2 bicycle.
    pub class: usize,
    /// x1 y1 x2 y2 in pixels.
    pub corners: [f32; 4],
}

/// What stands on the ground.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    /// 0 car, 1 pedestrian, 2 bicycle.
    pub class: usize,
    /// Middle of the box in metres; the ground is z = 0.
    pub center: [f32; 3],
    /// Length, width, height in metres.
    pub size: [f32; 3],
    /// Direction of the length, counter-clockwise from +x.
    pub yaw: f32,
}

/// The patches of a frame. They never touch each other.
pub fn patches(frame: usize) -> [Patch; 5] {
    let step = frame as f32;
    let patch = |class: usize, x: f32, y: f32| {
        let [w, h] = [[80.0, 44.0], [26.0, 64.0], [40.0, 40.0]][class];
        Patch { class, corners: [x - w / 2.0, y - h / 2.0, x + w / 2.0, y + h / 2.0] }
    };
    [
        patch(0, 60.0 + 12.5 * step, 231.0),
        patch(0, 560.0 - 10.25 * step, 130.0),
        patch(1, 150.0 + 4.5 * step, 300.0),
        patch(1, 470.0 - 3.75 * step, 60.0),
        patch(2, 600.0 - 15.5 * step, 185.0),
    ]
}

/// An image, rgb8, rows of `3 * WIDTH` bytes: a grey road with white dashes,
/// red and green rectangles and blue discs.
pub fn image(frame: usize) -> Vec<u8> {
    let patches = patches(frame);
    let mut noise = Noise(frame as u32 + 1);
    let mut pixels = Vec::with_capacity(3 * WIDTH * HEIGHT);
    for y in 0..HEIGHT {
        for x in 0..WIDTH {
            let at = [x as f32 + 0.5, y as f32 + 0.5];
            let found = patches.iter().find(|patch| patch.covers(at));
            pixels.extend(match found {
                Some(patch) => [[215, 35, 30], [20, 205, 25], [25, 40, 215]][patch.class],
                None => [background(x, y, frame) + noise.below(8); 3],
            });
        }
    }
    pixels
}

impl Patch {
    fn covers(&self, [x, y]: [f32; 2]) -> bool {
        let [x1, y1, x2, y2] = self.corners;
        let inside = x1 <= x && x < x2 && y1 <= y && y < y2;
        let [dx, dy] = [x - (x1 + x2) / 2.0, y - (y1 + y2) / 2.0];
        let radius = (x2 - x1) / 2.0;
        inside && (self.class != 2 || dx * dx + dy * dy <= radius * radius)
    }
}

fn background(x: usize, y: usize, frame: usize) -> u8 {
    let is_dash = (268..274).contains(&y) && (x + 9 * frame) % 96 < 48;
    match y {
        _ if is_dash => 225,
        0..110 => 160,
        _ => 88,
    }
}

/// The blocks of a frame, more than the lidar network's window apart.
pub fn blocks(frame: usize) -> [Block; 5] {
    let step = frame as f32;
    let block = |class: usize, x: f32, y: f32, yaw: f32| {
        let size = [[4.5, 1.9, 1.6], [0.7, 0.6, 1.75], [1.8, 0.6, 1.5]][class];
        Block { class, center: [x, y, size[2] / 2.0], size, yaw }
    };
    [
        block(0, -18.0 + 1.1 * step, 3.6, 0.0),
        block(0, 18.0 - 0.9 * step, -4.2, 0.12),
        block(0, 2.0, 14.0 - 0.15 * step, -0.9 - 0.02 * step),
        block(1, -6.0 + 0.14 * step, -12.0, 0.3),
        block(2, -16.0 + 0.55 * step, -17.5, 0.45),
    ]
}

/// A scan: x, y, z in metres and intensity in 0..255, the ground first, then
/// roofs and walls of the blocks.
pub fn cloud(frame: usize) -> Vec<[f32; 4]> {
    let blocks = blocks(frame);
    let mut noise = Noise(frame as u32 + 1);
    let mut points = Vec::new();
    for ring in 0..14 {
        let radius = 3.0 + 0.16 * (ring * ring) as f32 + 0.3 * ring as f32;
        for step in 0..320 {
            let (sine, cosine) = (step as f32 / 320.0 * std::f32::consts::TAU).sin_cos();
            let [x, y] = [radius * cosine, radius * sine];
            if !blocks.iter().any(|block| block.covers([x, y])) {
                points.push([x, y, 0.04 * noise.unit() - 0.02, f32::from(10 + noise.below(10))]);
            }
        }
    }
    for block in &blocks {
        block.sample(&mut points, &mut noise);
    }
    points
}

impl Block {
    fn covers(&self, [x, y]: [f32; 2]) -> bool {
        let (sine, cosine) = self.yaw.sin_cos();
        let [dx, dy] = [x - self.center[0], y - self.center[1]];
        let along = dx * cosine + dy * sine;
        let across = dy * cosine - dx * sine;
        along.abs() <= self.size[0] / 2.0 && across.abs() <= self.size[1] / 2.0
    }

    /// Points about 0.15 m apart on the roof, and under its border on the walls.
    fn sample(&self, points: &mut Vec<[f32; 4]>, noise: &mut Noise) {
        let [length, width, height] = self.size;
        let count = |extent: f32| (extent / 0.15).ceil() as usize;
        let (sine, cosine) = self.yaw.sin_cos();
        for i in 0..=count(length) {
            for j in 0..=count(width) {
                let along = (i as f32 / count(length) as f32 - 0.5) * length;
                let across = (j as f32 / count(width) as f32 - 0.5) * width;
                let x = self.center[0] + along * cosine - across * sine;
                let y = self.center[1] + along * sine + across * cosine;
                let is_wall = i == 0 || j == 0 || i == count(length) || j == count(width);
                let levels = if is_wall { 4 } else { 1 };
                for level in 0..levels {
                    let z = height * (1.0 - level as f32 / 4.0) - 0.01 * noise.unit();
                    points.push([x, y, z, f32::from(80 + noise.below(60))]);
                }
            }
        }
    }
}

/// A generator of numbers that look random (xorshift).
struct Noise(u32);

impl Noise {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }

    fn below(&mut self, limit: u8) -> u8 {
        (self.next() >> 8) as u8 % limit
    }

    fn unit(&mut self) -> f32 {
        (self.next() >> 8) as f32 / (1 << 24) as f32
    }
}

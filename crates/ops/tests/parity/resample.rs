//! Resample: bit-equal images for every encoding, size, placement, filter and lens.

use det_post_ops::device::cuda::{CudaDevice, DeviceTensor, Stream};
use det_post_ops::image::DeviceImage;
use det_post_ops::image::resample::{ResampleParams, SampleMap, Workspace, cuda, resample};
use det_post_types::{
    CameraCalibration, CameraModel, CameraView, ChannelOrder, ElementType, Encoding, Letterbox,
    Normalization, PixelConvention, Placement, Resize, Size, Tensor, Undistort,
};

use det_post_testing::images::{ENCODINGS, RandomImage, assert_equal, possible};
use det_post_testing::random::Random;

const PLACEMENTS: [Placement; 4] =
    [Placement::CropTop, Placement::Center, Placement::TopLeft, Placement::Stretch];

/// Cameras of a tensor.
const NUM_IMAGES: usize = 3;

struct Problem {
    image: RandomImage,
    map: SampleMap,
    params: ResampleParams,
    element: ElementType,
    index: usize,
    what: String,
}

impl Problem {
    fn new(random: &mut Random, size: Size, network: Size, encoding: Encoding) -> Option<Self> {
        let image = RandomImage::new(random, size, encoding);
        let placement = PLACEMENTS[random.below(4)];
        let resize = [Resize::Bilinear, Resize::Antialias][random.below(2)];
        let lens = random.below(4);
        let map = match lens {
            0 => SampleMap::of_placement(&Letterbox::new(size, network, placement), resize),
            lens => SampleMap::of_view(&view(lens, size, network, placement), resize),
        };
        Some(Self {
            image,
            // More than the largest scale is refused.
            map: map.ok()?,
            params: ResampleParams {
                channel_order: [ChannelOrder::Rgb, ChannelOrder::Bgr][random.below(2)],
                normalization: Normalization::from_mean_std(
                    [103.53, 116.28, 123.675],
                    [57.375, 57.12, 58.395],
                ),
                pad_value: 11.0,
            },
            element: [ElementType::F32, ElementType::F16][random.below(2)],
            index: random.below(NUM_IMAGES),
            what: format!("{encoding:?} {size:?} {network:?} {placement:?} {resize:?} lens {lens}"),
        })
    }

    fn shape(&self) -> [usize; 4] {
        let Size { width, height } = self.map.network();
        [NUM_IMAGES, 3, height as usize, width as usize]
    }

    fn check(&self, device: &CudaDevice) {
        let stream = device.stream().unwrap();
        self.check_with(&stream, &cuda::DeviceMap::new(&stream, &self.map).unwrap());
    }

    /// Compares both devices, with the map in memory of the GPU.
    fn check_with(&self, stream: &Stream, map_on_device: &cuda::DeviceMap) {
        let mut expected = Tensor::zeros(self.element, &self.shape()).unwrap();
        let (map, params, index) = (&self.map, &self.params, self.index);
        let mut workspace = Workspace::new();
        resample(&self.image.view(), map, params, &mut workspace, index, &mut expected).unwrap();

        let kernels = cuda::Kernels::load(stream.device()).unwrap();
        let mut image = DeviceImage::with_capacity(stream, self.image.view().data().len()).unwrap();
        let mut out = DeviceTensor::zeros(stream, self.element, &self.shape()).unwrap();
        image.enqueue_upload(&self.image.view()).unwrap();
        cuda::enqueue_resample(stream, &kernels, &image, map_on_device, params, index, &mut out)
            .unwrap();
        let context = format!("{} {:?}", self.what, self.element);
        assert_equal(&out.read().unwrap(), &expected, &context);
    }
}

/// A view through a barrel, pincushion or fisheye lens.
fn view(lens: usize, size: Size, network: Size, placement: Placement) -> CameraView {
    let (width, height) = (f64::from(size.width), f64::from(size.height));
    let (model, distortion): (_, &[f64]) = match lens {
        1 => ("plumb_bob", &[-0.31, 0.12, 0.0011, -0.0007, -0.021]),
        2 => ("rational_polynomial", &[0.4, 0.1, 0.0004, -0.0003, 0.03, 0.1, 0.01, 0.0]),
        _ => ("equidistant", &[0.03, -0.012, 0.004, -0.0009]),
    };
    let focal = 0.6 * width;
    let camera = CameraModel::new(&CameraCalibration {
        size,
        distortion_model: model.into(),
        distortion: distortion.into(),
        intrinsics: [focal, 0.0, 0.52 * width, 0.0, focal, 0.47 * height, 0.0, 0.0, 1.0],
        binning: [1, 1],
        ..CameraCalibration::default()
    })
    .unwrap();
    CameraView::new(&camera, Undistort::Auto, network, placement, PixelConvention::Trainer)
}

#[test]
fn resample_is_bit_equal() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(11);
    // (source, network): down, up, odd, thin, one pixel, the same, those of real rigs.
    let sizes = [
        ((64, 48), (32, 32)),
        ((30, 20), (97, 131)),
        ((129, 77), (64, 31)),
        ((2, 2), (5, 9)),
        ((640, 2), (33, 65)),
        ((90, 60), (1, 1)),
        ((40, 40), (40, 40)),
        ((800, 450), (352, 128)),
    ];
    let mut num_checked = 0;
    for encoding in ENCODINGS {
        for (size, (nw, nh)) in sizes {
            for _ in 0..6 {
                let (size, network) = (possible(encoding, size), Size::new(nw, nh));
                if let Some(problem) = Problem::new(&mut random, size, network, encoding) {
                    problem.check(&device);
                    num_checked += 1;
                }
            }
        }
    }
    assert!(num_checked > 500, "{num_checked} problems");
    let one = Size::new(1, 1);
    Problem::new(&mut random, one, Size::new(7, 3), Encoding::Rgb8).unwrap().check(&device);
}

#[test]
fn resample_of_random_sizes_is_bit_equal() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(12);
    for _ in 0..150 {
        let mut side = |most: usize| (1 + random.below(most)) as u32;
        let size = Size::new(2 * side(200), 2 * side(150));
        let network = Size::new(side(300), side(300));
        let encoding = ENCODINGS[random.below(ENCODINGS.len())];
        if let Some(problem) = Problem::new(&mut random, size, network, encoding) {
            problem.check(&device);
        }
    }
}

/// A camera whose calibration changes with every message takes no new memory.
#[test]
fn a_map_takes_the_memory_of_the_one_that_it_replaces() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let mut random = Random::new(17);
    let (size, network) = (Size::new(64, 48), Size::new(32, 32));
    let mut problem = Problem::new(&mut random, size, network, Encoding::Rgb8).unwrap();
    let mut map = None;
    for (number, lens) in [1, 2, 3, 1, 2, 3].into_iter().enumerate() {
        let view = view(lens, size, network, Placement::CropTop);
        problem.map = SampleMap::of_view(&view, Resize::Bilinear).unwrap();
        problem.what = format!("map {number}");
        let num_before = stream.num_allocations();
        let new = cuda::DeviceMap::replacing(map.take(), &stream, &problem.map).unwrap();
        assert_eq!(stream.num_allocations() > num_before, number == 0, "map {number}");
        problem.check_with(&stream, map.insert(new));
    }
}

#[test]
fn maps_and_tensors_that_do_not_fit_are_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let kernels = cuda::Kernels::load(&device).unwrap();
    let mut random = Random::new(13);
    let (size, network) = (Size::new(8, 8), Size::new(4, 4));
    let problem = Problem::new(&mut random, size, network, Encoding::Rgb8).unwrap();
    let other = Problem::new(&mut random, Size::new(9, 8), network, Encoding::Rgb8).unwrap();
    let [map, map_of_other] =
        [&problem, &other].map(|problem| cuda::DeviceMap::new(&stream, &problem.map).unwrap());
    let mut image = DeviceImage::with_capacity(&stream, problem.image.view().data().len()).unwrap();
    let mut out = DeviceTensor::zeros(&stream, ElementType::F32, &[2, 3, 4, 4]).unwrap();
    let mut enqueue = |image: &DeviceImage, map, index| {
        let params = &problem.params;
        cuda::enqueue_resample(&stream, &kernels, image, map, params, index, &mut out)
    };
    assert!(enqueue(&image, &map, 0).is_err(), "no image was uploaded");
    image.enqueue_upload(&problem.image.view()).unwrap();
    assert!(enqueue(&image, &map_of_other, 0).is_err());
    assert!(enqueue(&image, &map, 2).is_err());
    assert!(enqueue(&image, &map, 1).is_ok());
}

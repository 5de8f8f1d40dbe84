//! Letterbox: bit-equal planes for every encoding, size, step and placement.

use det_post_ops::device::cuda::{CudaDevice, DeviceTensor};
use det_post_ops::image::DeviceImage;
use det_post_ops::image::letterbox::{LetterboxParams, Workspace, cuda, letterbox};
use det_post_types::{
    ChannelOrder, ElementType, Encoding, Normalization, Placement, Resize, Size, Tensor,
};

use det_post_testing::images::{ENCODINGS, RandomImage, assert_equal, possible};
use det_post_testing::random::Random;

const PLACEMENTS: [Placement; 4] =
    [Placement::Center, Placement::TopLeft, Placement::Stretch, Placement::CropTop];

const RESIZES: [Resize; 3] = [Resize::Bilinear, Resize::Antialias, Resize::Antialias8Bit];

struct Problem {
    size: Size,
    network: Size,
    image: RandomImage,
    params: LetterboxParams,
    element: ElementType,
}

impl Problem {
    fn new(random: &mut Random, size: Size, network: Size, encoding: Encoding) -> Self {
        let image = RandomImage::new(random, size, encoding);
        let params = LetterboxParams {
            placement: PLACEMENTS[random.below(4)],
            channel_order: [ChannelOrder::Rgb, ChannelOrder::Bgr][random.below(2)],
            normalization: Normalization::from_mean_std(
                [123.675, 116.28, 103.53],
                [58.395, 57.12, 57.375],
            ),
            pad_value: 114.0,
            resize: RESIZES[random.below(3)],
        };
        let element = [ElementType::F32, ElementType::F16][random.below(2)];
        Self { size, network, image, params, element }
    }

    fn shape(&self) -> [usize; 4] {
        [1, 3, self.network.height as usize, self.network.width as usize]
    }

    fn check(&self, device: &CudaDevice) {
        let mut expected = Tensor::zeros(self.element, &self.shape()).unwrap();
        let on_cpu =
            letterbox(&self.image.view(), &self.params, &mut Workspace::new(), &mut expected)
                .unwrap();

        let stream = device.stream().unwrap();
        let kernels = cuda::Kernels::load(device).unwrap();
        let mut image =
            DeviceImage::with_capacity(&stream, self.image.view().data().len()).unwrap();
        let mut out = DeviceTensor::zeros(&stream, self.element, &self.shape()).unwrap();
        image.enqueue_upload(&self.image.view()).unwrap();
        let on_device =
            cuda::enqueue_letterbox(&stream, &kernels, &image, &self.params, &mut out).unwrap();
        assert_eq!(on_device, on_cpu);
        let Self { size, network, params, element, .. } = self;
        let encoding = self.image.view().encoding();
        let (placement, resize) = (params.placement, params.resize);
        let context =
            format!("{encoding:?} {size:?} -> {network:?} {placement:?} {resize:?} {element:?}");
        assert_equal(&out.read().unwrap(), &expected, &context);
    }
}

#[test]
fn letterbox_is_bit_equal() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(1);
    // (source, network): down, up, odd, one pixel, thin, the same.
    let sizes = [
        ((64, 48), (32, 32)),
        ((30, 20), (97, 131)),
        ((129, 77), (64, 96)),
        ((2, 2), (5, 9)),
        ((640, 2), (33, 65)),
        ((40, 40), (40, 40)),
        ((1242, 376), (640, 640)),
        // More pixels of the source per pixel than a block holds weights of.
        ((900, 300), (31, 9)),
    ];
    for encoding in ENCODINGS {
        for (size, (nw, nh)) in sizes {
            for _ in 0..6 {
                let (size, network) = (possible(encoding, size), Size::new(nw, nh));
                Problem::new(&mut random, size, network, encoding).check(&device);
            }
        }
    }
    let one = Size::new(1, 1);
    Problem::new(&mut random, one, Size::new(7, 3), Encoding::Rgb8).check(&device);
    Problem::new(&mut random, Size::new(300, 200), one, Encoding::Bgr8).check(&device);
}

#[test]
fn letterbox_of_random_sizes_is_bit_equal() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(2);
    for _ in 0..300 {
        let mut side = |least: usize, most: usize| (least + random.below(most)) as u32;
        let size = Size::new(2 * side(1, 200), 2 * side(1, 150));
        let network = Size::new(side(1, 300), side(1, 300));
        let encoding = ENCODINGS[random.below(ENCODINGS.len())];
        Problem::new(&mut random, size, network, encoding).check(&device);
    }
}

#[test]
fn buffers_of_another_stream_and_wrong_shapes_are_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(3);
    let problem = Problem::new(&mut random, Size::new(8, 8), Size::new(4, 4), Encoding::Rgb8);
    let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
    let kernels = cuda::Kernels::load(&device).unwrap();
    let mut image = DeviceImage::with_capacity(&stream, problem.image.view().data().len()).unwrap();
    let mut out = DeviceTensor::zeros(&other, ElementType::F32, &[1, 3, 4, 4]).unwrap();
    let params = &problem.params;
    assert!(cuda::enqueue_letterbox(&stream, &kernels, &image, params, &mut out).is_err());
    image.enqueue_upload(&problem.image.view()).unwrap();
    assert!(cuda::enqueue_letterbox(&stream, &kernels, &image, params, &mut out).is_err());
    let mut flat = DeviceTensor::zeros(&stream, ElementType::F32, &[3, 4, 4]).unwrap();
    assert!(cuda::enqueue_letterbox(&stream, &kernels, &image, params, &mut flat).is_err());
    let mut small = DeviceImage::with_capacity(&stream, 10).unwrap();
    assert!(small.enqueue_upload(&problem.image.view()).is_err());
}

//! Antialiased inputs of networks against the shared data: Pillow's and PyTorch's filters.

use det_post_ops::image::decompress::{DecodedImage, decompress};
use det_post_ops::image::letterbox::{LetterboxParams, Workspace, letterbox};
use det_post_testing::npz::Npz;
use det_post_testing::require::{Need, skip};
use det_post_testing::shared_data::shared_data;
use det_post_types::{
    ChannelOrder, CompressedFormat, CompressedView, Normalization, Placement, Resize, Tensor,
};

/// The largest difference of the inputs of a network, and the share of numbers that differ by more
/// than rounding.
fn difference(
    case: &str,
    input: &str,
    normalization: Normalization,
    resize: Resize,
) -> Option<[f32; 2]> {
    let folder = shared_data()?.join("detr");
    if !folder.is_dir() {
        skip(Need::Data, format_args!("{} is no folder", folder.display()));
        return None;
    }
    let params = LetterboxParams {
        placement: Placement::Stretch,
        channel_order: ChannelOrder::Rgb,
        normalization,
        pad_value: 0.0,
        resize,
    };
    let tensors = Npz::open(&folder.join(format!("{case}_tensors.npz")));
    let expected = tensors.f32(input);
    let mut shape = tensors.array(input).shape.clone();
    let num_images = std::mem::replace(&mut shape[0], 1);
    let (mut most, mut num_differing) = (0.0_f32, 0);
    for (index, expected) in expected.chunks_exact(expected.len() / num_images).enumerate() {
        let name = if input == "images" { format!("{case}_{index}") } else { case.to_owned() };
        let file = std::fs::read(folder.join(format!("{name}.png"))).unwrap();
        let file = CompressedView::new(CompressedFormat::Png, &file);
        let mut image = DecodedImage::default();
        decompress(&file, &mut image).unwrap();
        let values = vec![f32::NAN; expected.len()];
        let mut out = Tensor::F32 { shape: shape.clone(), values };
        letterbox(&image.view().unwrap(), &params, &mut Workspace::new(), &mut out).unwrap();
        let Tensor::F32 { values, .. } = out else { panic!("f32") };
        for (found, expected) in values.iter().zip(expected) {
            let difference = (found - expected).abs();
            most = most.max(difference);
            num_differing += usize::from(difference > 1e-4);
        }
    }
    println!("{case}: at most {most:e}, {num_differing} numbers of {}", expected.len());
    Some([most, num_differing as f32 / expected.len() as f32])
}

#[test]
fn inputs_of_rfdetr_are_those_of_the_reference() {
    let mean = [123.675, 116.28, 103.53];
    let normalization = Normalization::from_mean_std(mean, [58.395, 57.12, 57.375]);
    let found = difference("rfdetr_tiny", "input", normalization, Resize::Antialias);
    assert!(found.is_none_or(|[most, _]| most < 2e-5), "{found:?}");
}

/// Releases of Pillow that sum rows first differ by one step of 255 here and there.
#[test]
fn inputs_of_dfine_are_pillows() {
    let normalization = Normalization::from_mean_std([0.0; 3], [255.0; 3]);
    for case in ["dfine_tiny", "dfine_tiny_raw", "deim_tiny_batch2"] {
        let found = difference(case, "images", normalization, Resize::Antialias8Bit);
        let near = found.is_none_or(|[most, share]| most < 1.001 / 255.0 && share < 0.02);
        assert!(near, "{case}: {found:?}");
    }
}

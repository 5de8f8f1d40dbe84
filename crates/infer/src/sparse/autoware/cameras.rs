//! The cameras of a network of cameras and LiDAR: BEVFusion as AWML exports it.
//!
//! `QuickCumsumCuda` sums the points of the frustums of cameras by the cells of a map. Its rows are the
//! products of a distribution of depths `[N, 1, D, h, w]` and features of pixels `[N, C, 1, h, w]`,
//! chosen and sorted by inputs of the graph. The products are replaced by an operation that sums without
//! storing them ([`det_post_ops::view::bev_pool`]), so that the file falls into two networks: from
//! features of images to depths and features of pixels, and from maps to the outputs.
//!
//! The first one takes the points as images of depths, which nodes in front of its convolutions make of
//! them; these images are an input in place of the nodes ([`det_post_ops::view::depth_image`]).

use std::borrow::Cow;
use std::collections::HashSet;

use super::super::node::{self, Attributes};
use super::super::{CameraNetwork, MAP_OF_CAMERAS as MAP, refuse};
use super::part;
use crate::onnx::write::{self, Pieces};
use crate::onnx::{AttributeValue, DataType, Graph, Model, Node, Source, ValueInfo};
use det_post_types::{Result, Size};

/// The node that sums.
const POOL: &str = "QuickCumsumCuda";

/// The name of the images of depths.
const DEPTH_IMAGES: &str = "images_of_depths";
/// The names of the outputs of the first network.
const OUTPUTS: [&str; 2] = ["depths_of_pixels", "features_of_pixels"];

/// What a file has of cameras.
pub(super) struct Cameras<'a> {
    /// The map as the file has it, `[1, levels, rows, columns, channels]`.
    pub(super) pooled: &'a str,
    /// `[N, D, h, w]` and `[N, C, h, w]`.
    products: [&'a str; 2],
    /// The features of images.
    features: &'a str,
    /// The tensor that the first convolutions behind the points read, `[N, 1, height, width]`.
    depth_images: Option<&'a str>,
    sizes: CameraNetwork,
}

impl<'a> Cameras<'a> {
    /// `None` for a file without cameras.
    ///
    /// # Errors
    /// `Model` when the nodes around `QuickCumsumCuda` are others; the message names one.
    pub(super) fn find(model: &Model<'a>) -> Result<Option<Self>> {
        let graph = &model.graph;
        let mut pools = graph.nodes.iter().filter(|node| node.operator == POOL);
        let Some(pool) = pools.next() else { return Ok(None) };
        if let Some(second) = pools.next() {
            return refuse(format!("{second}: a second map of cameras beside {pool}"));
        }
        let search = Search { graph };
        let mut attributes = Attributes::of(pool);
        attributes.expect_int("batch_size", 1)?;
        let [levels, rows, columns] =
            [attributes.size("dimension")?, attributes.size("height")?, attributes.size("width")?];
        let product = search.product(pool)?;
        let [depths, features] = search.factors(product)?;
        let (of_depths, num_depths) = search.channels(depths, 0)?;
        let (of_features, num_channels) = search.channels(features, num_depths)?;
        if of_depths != of_features {
            return refuse(format!("{product}: its factors are channels of different tensors"));
        }
        let input = search.image_features()?;
        let image_features = match input.shape.as_deref() {
            Some(&[_, Some(channels), Some(rows), Some(columns)]) => {
                [channels, rows, columns].map(|size| usize::try_from(size).unwrap_or(0))
            }
            _ => {
                let name = input.name;
                return refuse(format!("input {name}: channels and size of its maps are open"));
            }
        };
        let depth_images = search.depth_images(input.name, [depths, features])?;
        let sizes = CameraNetwork {
            image_features,
            num_depths,
            num_channels,
            levels,
            rows,
            columns,
            takes_depth_images: depth_images.is_some(),
        };
        Ok(Some(Self {
            pooled: node::output(pool)?,
            products: [depths, features],
            features: input.name,
            depth_images,
            sizes,
        }))
    }

    pub(super) fn sizes(&self) -> CameraNetwork {
        self.sizes
    }

    /// Adds the input of the map and the nodes that give it the form of the file.
    pub(super) fn add_map(&self, pieces: &mut Pieces<'_>) {
        let CameraNetwork { levels, rows, columns, num_channels, .. } = self.sizes;
        let [levels, rows, columns, channels] =
            [levels, rows, columns, num_channels].map(|size| size as i64);
        let (shape, planes) = (format!("{MAP}.shape"), format!("{MAP}.planes"));
        pieces
            .initializers
            .push(Cow::Owned(write::integers(&shape, &[1, levels, channels, rows, columns])));
        let added = [
            write::node("Reshape", &[MAP, &shape], &planes, &[]),
            write::node("Transpose", &[&planes], self.pooled, &[("perm", &[0, 1, 3, 4, 2])]),
        ];
        pieces.nodes.splice(0..0, added.map(Cow::Owned));
        let dims = [1, levels * channels, rows, columns].map(Some);
        pieces.inputs.push(Cow::Owned(write::value_info(MAP, Some(&dims))));
    }

    /// The network from features of images, and images of depths, to depths `[N, D, h, w]` and features
    /// `[N, h, w, C]`.
    pub(super) fn network(
        &self,
        model: &Model<'a>,
        num_cameras: usize,
        image_size: Size,
    ) -> Result<Vec<u8>> {
        let known: Vec<&str> = [self.features].into_iter().chain(self.depth_images).collect();
        let mut pieces = part::between(model, &known, &self.products)?;
        let num = Some(num_cameras as i64);
        let [channels, rows, columns] = self.sizes.image_features.map(|size| Some(size as i64));
        let [height, width] = [image_size.height, image_size.width].map(|size| Some(size.into()));
        let features = write::value_info(self.features, Some(&[num, channels, rows, columns]));
        pieces.inputs.push(Cow::Owned(features));
        if let Some(images) = self.depth_images {
            let dims = [num, Some(1), height, width];
            pieces.inputs.push(Cow::Owned(write::value_info(DEPTH_IMAGES, Some(&dims))));
            let renamed = write::node("Identity", &[DEPTH_IMAGES], images, &[]);
            pieces.nodes.insert(0, Cow::Owned(renamed));
        }
        let [depths, features] = self.products;
        let [out_depths, out_features] = OUTPUTS;
        let perm: &[i64] = &[0, 2, 3, 1];
        pieces.nodes.extend(
            [
                write::node("Identity", &[depths], out_depths, &[]),
                write::node("Transpose", &[features], out_features, &[("perm", perm)]),
            ]
            .map(Cow::Owned),
        );
        let [num_depths, num_channels] =
            [self.sizes.num_depths, self.sizes.num_channels].map(|size| Some(size as i64));
        for (name, dims) in [
            (out_depths, [num, num_depths, rows, columns]),
            (out_features, [num, rows, columns, num_channels]),
        ] {
            pieces.outputs.push(Cow::Owned(write::value_info(name, Some(&dims))));
        }
        Ok(part::to_bytes(model, &pieces))
    }
}

/// The way back from the sums.
struct Search<'g, 'a> {
    graph: &'g Graph<'a>,
}

impl<'g, 'a> Search<'g, 'a> {
    /// The node that writes a tensor.
    fn writer(&self, name: &str) -> Option<&'g Node<'a>> {
        match self.graph.source(name)? {
            Source::Node(at) => self.graph.nodes.get(at),
            Source::Input(_) | Source::Initializer(_) => None,
        }
    }

    /// The product whose rows a node sums.
    fn product(&self, pool: &'g Node<'a>) -> Result<&'g Node<'a>> {
        let mut at = pool;
        // A node reads what nodes before it write: this ends.
        loop {
            let name = at.inputs.first().copied().unwrap_or_default();
            let Some(before) = self.writer(name) else {
                return refuse(format!("{at}: input {name} is no product of depths and features"));
            };
            at = match before.operator {
                "Mul" => match self.unmasked(before) {
                    Some(value) => match self.writer(value) {
                        Some(product) if product.operator == "Mul" => return Ok(product),
                        _ => return self.not_understood(before),
                    },
                    None => return Ok(before),
                },
                "Transpose" => match before.attribute("perm") {
                    Some(AttributeValue::Ints(perm))
                        if *perm == [0, 1, 3, 4, 5, 2] || *perm == [0, 2, 3, 4, 1] =>
                    {
                        before
                    }
                    _ => return self.not_understood(before),
                },
                "Gather" | "GatherND" | "Compress" | "Reshape" | "Flatten" | "Cast"
                | "Identity" => before,
                _ => return self.not_understood(before),
            };
        }
    }

    /// Of a product with a mask of cameras, the other factor.
    fn unmasked(&self, product: &Node<'a>) -> Option<&'a str> {
        let [a, b] = product.inputs[..] else { return None };
        match (self.is_mask(a), self.is_mask(b)) {
            (true, false) => Some(b),
            (false, true) => Some(a),
            _ => None,
        }
    }

    /// Whether a tensor is an input of the graph in another shape.
    fn is_mask(&self, name: &str) -> bool {
        let mut name = name;
        while let Some(node) = self.writer(name) {
            if !matches!(node.operator, "Reshape" | "Unsqueeze" | "Cast" | "Identity") {
                return false;
            }
            name = node.inputs.first().copied().unwrap_or_default();
        }
        matches!(self.graph.source(name), Some(Source::Input(_)))
    }

    /// Depths and features, the factors of a product.
    fn factors(&self, product: &'g Node<'a>) -> Result<[&'a str; 2]> {
        let ([a, b], _) = node::inputs::<2>(product, 0)?;
        let of = |axis| {
            let found = [a, b].into_iter().find_map(|name| self.unsqueezed(name, axis));
            found.map_or_else(
                || refuse(format!("{product}: no factor is unsqueezed along dimension {axis}")),
                Ok,
            )
        };
        Ok([of(1)?, of(2)?])
    }

    /// The input of an `Unsqueeze` along one dimension.
    fn unsqueezed(&self, name: &str, axis: i64) -> Option<&'a str> {
        let node = self.writer(name).filter(|node| node.operator == "Unsqueeze")?;
        let axes = match node.attribute("axes") {
            Some(AttributeValue::Ints(axes)) => axes.clone(),
            _ => self.ints(node, 1)?,
        };
        // Of five dimensions.
        let fits = matches!(axes[..], [found] if found == axis || found == axis - 5);
        node.inputs.first().copied().filter(|_| fits)
    }

    /// The tensor of which another one is the channels from `first` on, and how many.
    fn channels(&self, name: &'a str, first: usize) -> Result<(&'a str, usize)> {
        let mut at = name;
        while let Some(node) = self.writer(at) {
            match node.operator {
                "Softmax" | "Cast" | "Identity" => {}
                "Slice" => return self.slice(node, first),
                _ => return self.not_understood(node),
            }
            at = node.inputs.first().copied().unwrap_or_default();
        }
        refuse(format!("tensor {name} is not a slice of channels"))
    }

    fn slice(&self, node: &'g Node<'a>, first: usize) -> Result<(&'a str, usize)> {
        let one = |at| match self.ints(node, at)?[..] {
            [value] => Some(value),
            _ => None,
        };
        let step = if node.inputs.len() > 4 { one(4) } else { Some(1) };
        let num = match (one(1), one(2), one(3), step) {
            (Some(start), Some(end), Some(1), Some(1)) if start == first as i64 => end - start,
            _ => 0,
        };
        match (usize::try_from(num), node.inputs.first()) {
            (Ok(num @ 1..=65_535), Some(&of)) => Ok((of, num)),
            _ => refuse(format!("{node}: not the channels from {first} on, of dimension 1")),
        }
    }

    /// The input of features of images: maps of floats.
    fn image_features(&self) -> Result<&'g ValueInfo<'a>> {
        let is_map = |input: &&ValueInfo<'_>| {
            matches!(input.data_type, Some(DataType::F32 | DataType::F16))
                && input.shape.as_ref().is_some_and(|dims| dims.len() == 4)
        };
        let mut found = self.graph.inputs.iter().filter(is_map);
        match (found.next(), found.next()) {
            (Some(input), None) => Ok(input),
            _ => refuse("no input, or more than one, holds maps of images (image_feats)".into()),
        }
    }

    /// The tensor that the first convolutions behind other inputs read, on the way to the factors.
    fn depth_images(&self, features: &str, factors: [&'a str; 2]) -> Result<Option<&'a str>> {
        // What depends on the points, up to the first convolutions.
        let others = self.graph.inputs.iter().map(|input| input.name);
        let mut of_points: HashSet<&str> = others.filter(|name| *name != features).collect();
        let mut read: Vec<&'g Node<'a>> = Vec::new();
        for node in &self.graph.nodes {
            if !node.inputs.iter().any(|input| of_points.contains(input)) {
                continue;
            }
            match node.operator {
                "Conv" => read.push(node),
                _ => of_points.extend(&node.outputs),
            }
        }
        let (mut seen, mut open) = (HashSet::new(), factors.to_vec());
        let mut images = None;
        while let Some(name) = open.pop() {
            let Some(node) = self.writer(name) else { continue };
            if !seen.insert(name) {
                continue;
            }
            if !read.iter().any(|known| std::ptr::eq(*known, node)) {
                open.extend(&node.inputs);
                continue;
            }
            let ([input, weight], _) = node::inputs::<2>(node, 1)?;
            let dims = self.graph.initializer(weight).map(|weight| &weight.dims[..]);
            if !matches!(dims, Some([_, 1, _, _])) {
                return refuse(format!("{node}: it does not take images of depths of one channel"));
            }
            match images.replace(input) {
                Some(other) if other != input => {
                    return refuse(format!("{node}: a second image of depths beside {other}"));
                }
                _ => {}
            }
        }
        Ok(images)
    }

    /// Constant integers.
    fn ints(&self, node: &Node<'_>, at: usize) -> Option<Vec<i64>> {
        let tensor = match self.graph.source(node.inputs.get(at)?)? {
            Source::Initializer(at) => self.graph.initializers.get(at)?,
            Source::Node(at) => match self.graph.nodes.get(at)?.attribute("value")? {
                AttributeValue::Tensor(tensor) => tensor,
                _ => return None,
            },
            Source::Input(_) => return None,
        };
        tensor.ints().ok()
    }

    fn not_understood<T>(&self, node: &Node<'_>) -> Result<T> {
        refuse(format!(
            "{node}: not understood between {POOL} and the product of depths and features of pixels"
        ))
    }
}

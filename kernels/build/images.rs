//! Which kernels are loaded together.

/// The fatbins, of which a program loads those that its channels use, and their files; the
/// longest to compile first.
pub const IMAGES: [(&str, &[&str]); 6] = [
    // Layers of networks.
    (
        "dense",
        &[
            "dense/conv",
            "dense/arg_max",
            "dense/cumsum",
            "dense/gather",
            "dense/grid_sample",
            "dense/layer_norm",
            "dense/linear_max",
            "dense/pointwise",
            "dense/pool",
            "dense/reduce",
            "dense/resize",
            "dense/scatter_nd",
            "dense/softmax",
            "dense/top_k",
        ],
    ),
    (
        "surround",
        &[
            "view/attention",
            "view/bev_pool",
            "view/channels_last",
            "view/depth_image",
            "decode/query",
            "decode/streampetr",
            "view/detr3d_block",
            "view/layer_stack",
            "view/linear",
            "image/resample",
            "view/top_rows",
            "view/sample",
        ],
    ),
    (
        "sparse",
        &[
            "decode/sites",
            "sparse/rulebook",
            "arrays/sparse",
            "sparse/conv",
            "sparse/max_pool",
            "sparse/merge",
            "sparse/to_map",
        ],
    ),
    (
        "camera",
        &[
            "decode/yolo",
            "decode/keypoints",
            "decode/mask",
            "image/letterbox",
            "nms/fast",
            "nms/iou",
            "nms/rotated",
            "nms/soft",
        ],
    ),
    (
        "lidar",
        &[
            "decode/anchor",
            "decode/center",
            "cloud/densify",
            "nms/bev",
            "nms/bev_fast",
            "nms/circle",
            "nms/iou_3d",
            "cloud/pillar_features",
            "decode/proposals",
            "cloud/scatter",
            "nms/survivors",
            "cloud/unpack",
            "arrays/voxels",
            "sparse/voxel_mean",
            "cloud/voxel_points",
            "cloud/voxelize",
        ],
    ),
    (
        "frames",
        &[
            "arrays/candidates",
            "arrays/overlaps",
            "image/decompress",
            "shared/diagnostic",
            "decode/gather",
            "nms/none",
        ],
    ),
];

/// The families: folders of kernels.
pub const FAMILIES: [&str; 9] =
    ["arrays", "cloud", "decode", "dense", "image", "nms", "shared", "sparse", "view"];

#!/usr/bin/env python3
"""Reads the messages and definitions of this crate with other implementations.

    cargo test --test recordings messages          # lays them out under target/tmp/messages
    pip install rosbags mcap-ros2-support
    python tests/peers/check_messages.py [target/tmp/messages]

Checks, for every message type:
- each definition has the RIHS01 type hash of ROS 2 (from rosbags' Humble and Jazzy
  type stores; for vision_msgs, from the code that ROS 2 generates);
- rosbags and mcap-ros2-support decode the message by our definition, to the same values;
- rosbags encodes what it decoded into the same bytes;
- the values are the ones that tests/common/messages.rs put in.
"""

import sys
from pathlib import Path

import numpy
from mcap_ros2._dynamic import generate_dynamic
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

SEPARATOR = "=" * 80 + "\n"

# Type hashes of packages that rosbags does not have: vision_msgs 4.1 as generated for ROS 2
# Jazzy, autoware_msgs 1.12, autoware_auto_perception_msgs 1.0, isaac_ros_tensor_list_interfaces 4.5, yolo_msgs 4.6.1.
KNOWN_HASHES = {
    "vision_msgs/msg/Detection2DArray": "214274120007f4a683866481336b70310268cfa107aebe9d594a6acf75bda968",
    "vision_msgs/msg/Detection3DArray": "793f5eab9595ac1c0da07873cc859db42eae51f0ee76056db8562515d830e018",
    "vision_msgs/msg/LabelInfo": "3d37df4015cdf660cc851c51897f2acd957e1ca6205ba0a99aebffb9406b0783",
    "vision_msgs/msg/VisionClass": "1e4a11f0fed50b5623cb8ff26ca0e37952a48a9c074d16f804b44e9164c2037a",
    "autoware_auto_perception_msgs/msg/DetectedObject": "a4eb98f2ca7f3f7769aac984d3444cd3b959829f28d68fc49cae78264dc26407",
    "autoware_auto_perception_msgs/msg/DetectedObjectKinematics": "01b64d4b02fcd5fa01e4cef05e0a8d6e4e58aef5a24f534852cbefd4946435aa",
    "autoware_auto_perception_msgs/msg/DetectedObjects": "54428a0ec8d3548343f709655a5c092dd2ba6d881048597c2abf3b4a7e4bd222",
    "autoware_auto_perception_msgs/msg/ObjectClassification": "a6c2de255575201427d95aa1dc43d9263272a628f5dc6d58558137cdaab7af4a",
    "autoware_auto_perception_msgs/msg/Shape": "f3114e0d2b7aa7bacc66ea3c4bd723ff62436f9a0a17a5b9cc2cc5c433769cab",
    "autoware_internal_debug_msgs/msg/Float64Stamped": "588b194ed7eddc089b6ca098eb093e92f29bdad96ebd906fc9282816335942eb",
    "autoware_internal_msgs/msg/PublishedTime": "21dd0f5f27787b09d004f430fa63fb6e4e9e830c6b78dbd02d4b2018b48ea4d7",
    "autoware_perception_msgs/msg/DetectedObject": "395e8cae03c45c86ddb3263f9db58f5a1364bdabdcec56c24c817a372f7d566f",
    "autoware_perception_msgs/msg/DetectedObjectKinematics": "a01b4e06aa855e7a501b1af1e7c6a9eddb70e728e8f1195372ff5801cae1c9eb",
    "autoware_perception_msgs/msg/DetectedObjects": "2facd6b15786cbd1f720cdd23d22e6d60d2e7e83b8dff8fd401330e24edb187b",
    "autoware_perception_msgs/msg/ObjectClassification": "38131fef2df46486c20c12c238faf778328309f4c3e9daa6ffd621732e48dd19",
    "autoware_perception_msgs/msg/Shape": "1a32ac3073c17e4822d39b7f4c263eb1c4a2bacbf707d6db96e77e867063562b",
    "isaac_ros_tensor_list_interfaces/msg/Tensor": "4f84320fd44d2c4f4bfa5562a6c47c4403be8bdb7d25fe5df37f4e2786fcd66d",
    "isaac_ros_tensor_list_interfaces/msg/TensorList": "498b4418eed651d1eb843a154ac3dd6b7612b3fa851e1bd930f9f0c2e862cf6c",
    "isaac_ros_tensor_list_interfaces/msg/TensorShape": "3e0d2f347cd48e20550029e8754bb509be05e11d073ed43888fded7fb686cd60",
    "tier4_debug_msgs/msg/Float64Stamped": "cc26a190f81c52bc4d3668856f8f27185b4feec2bb39d6758e6daa045fdd31c9",
    "tier4_perception_msgs/msg/DetectedObjectWithFeature": "51eb5d9e5ccc322e746d51e0fdd64c6ee7a9c65cb5860af93e345e860f8c2d58",
    "tier4_perception_msgs/msg/DetectedObjectsWithFeature": "57ca7ba338d93c8174ea5a411ed093a01cd22df19c934ffb977103c98d697291",
    "tier4_perception_msgs/msg/Feature": "ca53ec39afda975d0d32cc7588ea81a29a6cdc094fb4874b11c2853acf89891c",
    "yolo_msgs/msg/Detection": "303e881e77fbe95c37cef2bdc8c047eee9051f22e4f7189f64bd029bfaedfca8",
    "yolo_msgs/msg/DetectionArray": "719290b4e201b2b6f9aa59f01215bc15b774e7b822f7f6d931d68e5ba6354a6a",
}

HEADER = {"stamp": {"sec": 1_700_000_001, "nanosec": 250_000_003}, "frame_id": "sensor"}
NO_ROTATION = {"x": 0.0, "y": 0.0, "z": 0.0, "w": 1.0}


def xyz(x, y, z):
    return {"x": x, "y": y, "z": z}


def transform(child, x):
    rotation = {"x": 0.5, "y": -0.5, "z": 0.5, "w": -0.5}
    motion = {"translation": xyz(x, 2.5, -3.5), "rotation": rotation}
    return {"header": HEADER, "child_frame_id": child, "transform": motion}


def detection_2d(class_id, score, x, y, width, height):
    pose = {"position": xyz(0.0, 0.0, 0.0), "orientation": NO_ROTATION}
    center = {"position": {"x": x, "y": y}, "theta": 0.0}
    return {
        "header": HEADER,
        "results": [
            {
                "hypothesis": {"class_id": class_id, "score": score},
                "pose": {"pose": pose, "covariance": [0.0] * 36},
            }
        ],
        "bbox": {"center": center, "size_x": width, "size_y": height},
        "id": "",
    }


def detection_3d(class_id, score, yaw, variances):
    half = 0.5 * float(numpy.float32(yaw))
    orientation = {"x": 0.0, "y": 0.0, "z": float(numpy.sin(half)), "w": float(numpy.cos(half))}
    pose = {"position": xyz(12.5, -3.25, 0.75), "orientation": orientation}
    covariance = numpy.diag(variances).ravel().tolist()
    return {
        "header": HEADER,
        "results": [
            {
                "hypothesis": {"class_id": class_id, "score": score},
                "pose": {"pose": pose, "covariance": covariance},
            }
        ],
        "bbox": {"center": pose, "size": xyz(4.5, 1.75, 1.5)},
        "id": "",
    }


def detected_object(probability, label, availability, covariance, twist, twist_covariance, size):
    """An autoware_perception_msgs/DetectedObject; covariances by index, others zero."""
    position = xyz(12.5, -3.25, 0.75) if size else xyz(0.0, 0.0, 0.0)
    matrix = lambda values: [values.get(i, 0.0) for i in range(36)]
    return {
        "existence_probability": probability,
        "classification": [{"label": label, "probability": 1.0}],
        "kinematics": {
            "pose_with_covariance": {
                "pose": {"position": position, "orientation": NO_ROTATION},
                "covariance": matrix(covariance),
            },
            "has_position_covariance": bool(covariance),
            "orientation_availability": availability,
            "twist_with_covariance": {
                "twist": {"linear": xyz(*(twist or (0.0, 0.0)), 0.0), "angular": xyz(0.0, 0.0, 0.0)},
                "covariance": matrix(twist_covariance),
            },
            "has_twist": twist is not None,
            "has_twist_covariance": bool(twist_covariance),
        },
        "shape": {
            "type": 0,
            "footprint": {"points": []},
            "dimensions": xyz(*(size or (0.0, 0.0, 0.0))),
        },
    }


def object_with_feature(probability, label, x, y, width, height):
    cluster = {
        "header": {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": ""},
        "height": 0,
        "width": 0,
        "fields": [],
        "is_bigendian": False,
        "point_step": 0,
        "row_step": 0,
        "data": [],
        "is_dense": False,
    }
    roi = {"x_offset": x, "y_offset": y, "height": height, "width": width, "do_rectify": False}
    return {
        "object": detected_object(probability, label, 0, {}, None, {}, None),
        "feature": {"cluster": cluster, "roi": roi},
    }


def yolo_detection(class_id, class_name, score, x, y, width, height, keypoints):
    pose = {"position": xyz(0.0, 0.0, 0.0), "orientation": NO_ROTATION}
    return {
        "class_id": class_id,
        "class_name": class_name,
        "score": score,
        "id": "",
        "bbox": {
            "center": {"position": {"x": x, "y": y}, "theta": 0.0},
            "size": {"x": width, "y": height},
        },
        "bbox3d": {"center": pose, "size": xyz(0.0, 0.0, 0.0), "frame_id": ""},
        "mask": {"height": 0, "width": 0, "data": []},
        "keypoints": {
            "data": [
                {"id": number, "point": {"x": x, "y": y}, "score": score}
                for number, x, y, score in keypoints
            ]
        },
        "keypoints3d": {"data": [], "frame_id": ""},
    }


def tensor(name, dims, data_type, strides, data):
    shape = {"rank": len(dims), "dims": dims}
    return {"name": name, "shape": shape, "data_type": data_type, "strides": strides, "data": data}


def field(name, offset, datatype):
    return {"name": name, "offset": offset, "datatype": datatype, "count": 1}


EXPECTED = {
    "sensor_msgs/msg/Image": {
        "header": HEADER,
        "height": 6,
        "width": 5,
        "encoding": "rgb8",
        "is_bigendian": 0,
        "step": 20,
        "data": list(range(120)),
    },
    "sensor_msgs/msg/CompressedImage": {
        "header": HEADER,
        "format": "rgb8; jpeg compressed bgr8",
        "data": list(range(77)),
    },
    "sensor_msgs/msg/CameraInfo": {
        "header": HEADER,
        "height": 375,
        "width": 1242,
        "distortion_model": "plumb_bob",
        "d": [0.1, -0.2, 0.3, -0.4, 0.5],
        "k": [i + 0.25 for i in range(9)],
        "r": [i - 0.5 for i in range(9)],
        "p": [i * 1.5 for i in range(12)],
        "binning_x": 0,
        "binning_y": 0,
        "roi": {"x_offset": 0, "y_offset": 0, "height": 0, "width": 0, "do_rectify": False},
    },
    "sensor_msgs/msg/PointCloud2": {
        "header": HEADER,
        "height": 2,
        "width": 4,
        "fields": [field("x", 0, 7), field("y", 4, 7), field("z", 8, 7), field("ring", 12, 4)],
        "is_bigendian": False,
        "point_step": 14,
        "row_step": 60,
        "data": list(range(120)),
        "is_dense": True,
    },
    "tf2_msgs/msg/TFMessage": {"transforms": [transform("base", 1.5), transform("lidar", 4.5)]},
    "vision_msgs/msg/Detection2DArray": {
        "header": HEADER,
        "detections": [
            detection_2d("pedestrian", 0.75, 19.0, 40.25, 31.0, 40.5),
            detection_2d("car", 0.5, 116.75, 40.25, 31.0, 40.5),
        ],
    },
    "vision_msgs/msg/Detection3DArray": {
        "header": HEADER,
        "detections": [
            detection_3d("cyclist", 0.375, 0.4, [0.25, 0.5, 0.125, 0.0, 0.0, 0.0625]),
            detection_3d("car", 0.25, -2.7, [0.0] * 6),
        ],
    },
    "vision_msgs/msg/LabelInfo": {
        "header": HEADER,
        "class_map": [
            {"class_id": i, "class_name": name}
            for i, name in enumerate(["car", "pedestrian", "cyclist"])
        ],
        "threshold": 0.375,
    },
    "autoware_perception_msgs/msg/DetectedObjects": {
        "header": HEADER,
        "objects": [
            # Variances of x and y in cells of 0.5 m by 0.25 m, times 0.5 m. A truck by its area.
            detected_object(
                0.375,
                2,
                1,
                {0: 0.5, 7: 1.0, 14: 0.5, 35: 0.0625},
                (3.0, -1.5),
                {0: 4.0, 7: 5.0},
                (4.5, 1.75, 1.5),
            ),
            detected_object(0.375, 7, 0, {}, (3.0, -1.5), {}, (0.5, 1.75, 1.5)),
            detected_object(0.375, 0, 0, {}, (3.0, -1.5), {}, (2.0, 1.75, 1.5)),
        ],
    },
    "tier4_perception_msgs/msg/DetectedObjectsWithFeature": {
        "header": HEADER,
        "feature_objects": [
            object_with_feature(0.75, 1, 3, 20, 31, 40),
            object_with_feature(0.5, 0, 101, 20, 31, 40),
        ],
    },
    "yolo_msgs/msg/DetectionArray": {
        "header": HEADER,
        "detections": [
            yolo_detection(0, "CAR", 0.75, 19.0, 40.25, 31.0, 40.5, [(1, 4.5, 50.0, 0.5)]),
            yolo_detection(
                2, "DOG", 0.5, 116.75, 40.25, 31.0, 40.5, [(1, 4.5, 25.0, 0.25), (2, 4.5, 100.0, 1.0)]
            ),
        ],
    },
    "isaac_ros_tensor_list_interfaces/msg/TensorList": {
        "header": HEADER,
        "tensors": [
            tensor("boxes", [1, 2, 3], 9, [24, 12, 4], list(range(24))),
            tensor("labels", [2], 7, [8], list(range(16))),
            tensor("none", [0, 4], 2, [4, 1], []),
        ],
    },
    "autoware_internal_debug_msgs/msg/Float64Stamped": {"stamp": HEADER["stamp"], "data": 4.25},
    "autoware_internal_msgs/msg/PublishedTime": {
        "header": HEADER,
        "published_stamp": {"sec": 1_700_000_002, "nanosec": 7},
    },
}

# Predecessors of other names and the same fields.
for former, present in [
    ("autoware_auto_perception_msgs/msg/DetectedObjects", "autoware_perception_msgs/msg/DetectedObjects"),
    ("tier4_debug_msgs/msg/Float64Stamped", "autoware_internal_debug_msgs/msg/Float64Stamped"),
]:
    EXPECTED[former] = EXPECTED[present]


def values(decoded):
    """A decoded message as dictionaries, lists and numbers, without constants."""
    if isinstance(decoded, (bytes, bytearray, memoryview)):
        return list(decoded)
    if isinstance(decoded, numpy.ndarray):
        return decoded.tolist()
    if isinstance(decoded, (list, tuple)):
        return [values(item) for item in decoded]
    names = getattr(decoded, "__dataclass_fields__", None) or getattr(decoded, "__slots__", None)
    if names is None:
        return decoded
    return {
        name: values(getattr(decoded, name))
        for name in names
        if not name.startswith("_") and not name.isupper()
    }


def assert_same(found, expected, path):
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), (path, found.keys())
        for key, value in expected.items():
            assert_same(found[key], value, f"{path}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), (path, len(found))
        for i, value in enumerate(expected):
            assert_same(found[i], value, f"{path}[{i}]")
    elif isinstance(expected, float):
        assert abs(found - expected) <= 1e-15 * abs(expected), (path, found, expected)
    else:
        assert found == expected, (path, found, expected)


def check(folder, type_name):
    stem = folder / type_name.replace("/msg/", ".")
    text = Path(f"{stem}.msg").read_text()
    cdr = Path(f"{stem}.cdr").read_bytes()

    first, *rest = text.split(SEPARATOR)
    definitions = {type_name: first}
    for part in rest:
        name, part = part.split("\n", 1)
        definitions[name.removeprefix("MSG: ").replace("/", "/msg/")] = part
    ours = get_typestore(Stores.EMPTY)
    for name, part in definitions.items():
        ours.register(get_types_from_msg(part, name))
    num_hashes = 0
    for name in definitions:
        digest = ours.hash_rihs01(name)
        known = [KNOWN_HASHES[name]] if name in KNOWN_HASHES else []
        for store in (Stores.ROS2_HUMBLE, Stores.ROS2_JAZZY):
            theirs = get_typestore(store)
            if name in theirs.types:
                known.append(theirs.hash_rihs01(name).removeprefix("RIHS01_"))
                assert ours.fielddefs[name] == theirs.fielddefs[name], name
        for expected in known:
            assert digest.removeprefix("RIHS01_") == expected, (name, digest)
        num_hashes += bool(known)

    message = ours.deserialize_cdr(cdr, type_name)
    assert_same(values(message), EXPECTED[type_name], type_name)
    again = bytes(ours.serialize_cdr(message, type_name))
    assert len(cdr) - len(again) in range(4) and cdr.startswith(again), type_name

    short_name = type_name.replace("/msg/", "/")
    decoders = generate_dynamic(short_name, text)
    message = decoders[short_name](cdr)
    assert_same(values(message), EXPECTED[type_name], type_name)
    print(f"{type_name}: {len(cdr)} bytes equal, {num_hashes} of {len(definitions)} hashes known")
    print(f"  {ours.hash_rihs01(type_name)}")


def main():
    default = Path(__file__).parents[2] / "target/tmp/messages"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    for type_name in EXPECTED:
        check(folder, type_name)
    assert {path.stem for path in folder.glob("*.cdr")} == {
        name.replace("/msg/", ".") for name in EXPECTED
    }


if __name__ == "__main__":
    main()

//! Descriptions of types, made from their definitions.
//!
//! A service is a type with a request, a response and an event, which ROS derives
//! from its definition as separate types.

use std::sync::LazyLock;

use super::{DEFINITIONS, text_of};
use crate::{Field, FieldType, IndividualTypeDescription, TypeDescription, TypeHash, TypeSource};

/// A type that the program has a definition of.
#[derive(Debug)]
pub struct KnownType {
    hash: TypeHash,
    /// The type and those that it contains.
    pub description: TypeDescription,
}

static KNOWN_TYPES: LazyLock<Vec<KnownType>> = LazyLock::new(|| {
    let described = DEFINITIONS.iter().filter_map(|(type_name, _)| describe(type_name));
    described.map(|description| KnownType { hash: description.hash(), description }).collect()
});

/// The message or service of this hash; `None` when it is unknown.
pub fn find_type(hash: TypeHash) -> Option<&'static KnownType> {
    KNOWN_TYPES.iter().find(|known| known.hash == hash)
}

/// The hash of a message, of a service or of a part of one, such as
/// `lifecycle_msgs/srv/GetState_Request`; `None` when it is unknown.
pub fn type_hash(type_name: &str) -> Option<TypeHash> {
    let is_type = |known: &&KnownType| known.description.main.type_name == type_name;
    match KNOWN_TYPES.iter().find(is_type) {
        Some(known) => Some(known.hash),
        None => describe(type_name).map(|description| description.hash()),
    }
}

impl KnownType {
    /// The texts of the type and of those that it contains, in the order of the
    /// description.
    pub fn sources(&self) -> Vec<TypeSource> {
        let TypeDescription { main, referenced } = &self.description;
        let names = std::iter::once(main).chain(referenced).map(|one| &one.type_name);
        names.map(|type_name| source(type_name)).collect()
    }
}

fn source(type_name: &str) -> TypeSource {
    let encoding = match text_of(type_name) {
        Some(_) if type_name.contains("/srv/") => "srv",
        Some(_) => "msg",
        None => "implicit",
    };
    let contents = text_of(type_name).unwrap_or_default();
    TypeSource { type_name: type_name.to_owned(), encoding, contents }
}

/// Describes a type and those that it contains. `None` when one is unknown.
fn describe(type_name: &str) -> Option<TypeDescription> {
    let main = individual(type_name)?;
    let mut referenced: Vec<IndividualTypeDescription> = Vec::new();
    let mut missing = nested_types(&main);
    while let Some(type_name) = missing.pop() {
        if !referenced.iter().any(|known| known.type_name == type_name) {
            let one = individual(&type_name)?;
            missing.extend(nested_types(&one));
            referenced.push(one);
        }
    }
    referenced.sort_unstable_by(|a, b| a.type_name.cmp(&b.type_name));
    Some(TypeDescription { main, referenced })
}

fn nested_types(one: &IndividualTypeDescription) -> Vec<String> {
    let names = one.fields.iter().map(|field| field.field_type.nested_type_name.clone());
    names.filter(|type_name| !type_name.is_empty()).collect()
}

fn individual(type_name: &str) -> Option<IndividualTypeDescription> {
    let fields = match text_of(type_name) {
        Some(_) if type_name.contains("/srv/") => service_fields(type_name),
        Some(text) => message_fields(text)?,
        None => {
            let (service, part) = type_name.rsplit_once('_')?;
            let (request, response) = text_of(service)?.split_once("---\n")?;
            match part {
                "Request" => message_fields(request)?,
                "Response" => message_fields(response)?,
                "Event" => event_fields(service),
                _ => return None,
            }
        }
    };
    Some(IndividualTypeDescription { type_name: type_name.to_owned(), fields })
}

fn service_fields(service: &str) -> Vec<Field> {
    let part = |name: &str, part: &str| Field {
        name: name.to_owned(),
        field_type: nested(format!("{service}_{part}"), &Array::One),
    };
    vec![
        part("request_message", "Request"),
        part("response_message", "Response"),
        part("event_message", "Event"),
    ]
}

fn event_fields(service: &str) -> Vec<Field> {
    let at_most_one = |part: &str| nested(format!("{service}_{part}"), &Array::AtMost(1));
    let info = nested("service_msgs/msg/ServiceEventInfo".to_owned(), &Array::One);
    [("info", info), ("request", at_most_one("Request")), ("response", at_most_one("Response"))]
        .map(|(name, field_type)| Field { name: name.to_owned(), field_type })
        .into()
}

/// The fields of a message or of a part of a service. IDL has no empty
/// structures: ROS gives them a byte.
fn message_fields(text: &str) -> Option<Vec<Field>> {
    let lines = text.lines().map(|line| line.split_once(' '));
    let mut fields = Vec::new();
    for line in lines {
        let (field_type, name) = line?;
        let is_constant = name.contains('=');
        if !is_constant {
            fields.push(Field { name: name.to_owned(), field_type: field_type_of(field_type)? });
        }
    }
    if fields.is_empty() {
        let name = "structure_needs_at_least_one_member".to_owned();
        fields.push(Field { name, field_type: field_type_of("uint8")? });
    }
    Some(fields)
}

/// How often a field holds its type.
enum Array {
    One,
    Exactly(u64),
    AtMost(u64),
    Any,
}

impl Array {
    /// What it adds to the number of its type.
    fn type_id_offset(&self) -> u8 {
        match self {
            Self::One => 0,
            Self::Exactly(_) => 48,
            Self::AtMost(_) => 96,
            Self::Any => 144,
        }
    }

    fn capacity(&self) -> u64 {
        match self {
            Self::One | Self::Any => 0,
            Self::Exactly(len) | Self::AtMost(len) => *len,
        }
    }
}

/// A field of another type, or of an array of it.
fn nested(type_name: String, array: &Array) -> FieldType {
    FieldType {
        type_id: 1 + array.type_id_offset(),
        capacity: array.capacity(),
        string_capacity: 0,
        nested_type_name: type_name,
    }
}

/// Reads the type of a field, such as `uint8[16]` or `std_msgs/Header`.
fn field_type_of(text: &str) -> Option<FieldType> {
    let (base, array) = match text.strip_suffix(']').and_then(|text| text.rsplit_once('[')) {
        None => (text, Array::One),
        Some((base, "")) => (base, Array::Any),
        Some((base, len)) => match len.strip_prefix("<=") {
            Some(most) => (base, Array::AtMost(most.parse().ok()?)),
            None => (base, Array::Exactly(len.parse().ok()?)),
        },
    };
    if let Some((package, name)) = base.split_once('/') {
        return Some(nested(format!("{package}/msg/{name}"), &array));
    }
    let (base, string_capacity) = match base.split_once("<=") {
        Some((base, most)) => (base, Some(most.parse().ok()?)),
        None => (base, None),
    };
    let type_id = match (base, string_capacity) {
        ("string", Some(_)) => 21,
        (_, Some(_)) => return None,
        ("int8", None) => 2,
        ("uint8" | "char", None) => 3,
        ("int16", None) => 4,
        ("uint16", None) => 5,
        ("int32", None) => 6,
        ("uint32", None) => 7,
        ("int64", None) => 8,
        ("uint64", None) => 9,
        ("float32", None) => 10,
        ("float64", None) => 11,
        ("bool", None) => 15,
        ("byte", None) => 16,
        ("string", None) => 17,
        _ => return None,
    };
    Some(FieldType {
        type_id: type_id + array.type_id_offset(),
        capacity: array.capacity(),
        string_capacity: string_capacity.unwrap_or(0),
        nested_type_name: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::*;
    use crate::middleware::{InputKind, ServiceKind};
    use crate::packed_cloud::PackedCloud;

    /// Types and their hashes as ROS 2 Jazzy has them (vision_msgs 4.1.1, bond 4.0.0,
    /// autoware_msgs 1.12, autoware_auto_perception_msgs 1.0, yolo_msgs 4.6.1; those of packages that Jazzy does not ship by rosbags).
    const HASHES: &str = include_str!("hashes.txt");

    fn hashes() -> impl Iterator<Item = (&'static str, &'static str)> {
        HASHES.lines().map(|line| line.split_once(' ').unwrap())
    }

    #[test]
    fn hashes_are_those_of_ros() {
        for (type_name, hash) in hashes() {
            let found = describe(type_name).unwrap_or_else(|| panic!("{type_name} is unknown"));
            assert_eq!(found.hash().to_string(), hash, "{type_name}");
        }
        // A part of a service has a separate hash, for the topic of the requests.
        let request = type_hash("lifecycle_msgs/srv/GetState_Request").unwrap().to_string();
        let expected = "RIHS01_77a9c844e7975f15bc2221e8bbebafc4d118afb78c7f7071eef91f83f940f2f6";
        assert_eq!(request, expected);
        assert_eq!(type_hash("sensor_msgs/msg/Unknown"), None);
    }

    #[test]
    fn every_type_of_the_node_has_a_description() {
        let inputs = [
            InputKind::Image,
            InputKind::CompressedImage,
            InputKind::PointCloud2,
            InputKind::TensorList,
            InputKind::CameraInfo,
            InputKind::Transforms { is_static: true },
            InputKind::Motion(MotionType::Odometry),
            InputKind::Motion(MotionType::Twist),
            InputKind::Motion(MotionType::TwistWithCovariance),
            InputKind::Motion(MotionType::Imu),
            InputKind::Clock,
            InputKind::Bond,
        ];
        let outputs = [
            Detection2DArray::TYPE,
            Detection3DArray::TYPE,
            LabelInfo::TYPE,
            MarkerArray::TYPE,
            DiagnosticArray::TYPE,
            Log::TYPE,
            ParameterEvent::TYPE,
            TransitionEvent::TYPE,
            DetectedObjects::TYPE,
            DetectedObjects::FORMER_TYPE,
            DetectedObjectsWithFeature::TYPE,
            YoloDetectionArray::TYPE,
            Float64Stamped::TYPE,
            Float64Stamped::FORMER_TYPE,
            PublishedTime::TYPE,
            TensorList::TYPE,
        ];
        let services = ServiceKind::of_nodes().map(ServiceKind::type_name);
        let clouds = PackedCloud::ALL.map(InputKind::PackedCloud);
        let inputs = inputs.into_iter().chain(clouds).map(InputKind::type_name);
        for type_name in inputs.chain(outputs).chain(services) {
            assert!(hashes().any(|(known, _)| known == type_name), "{type_name}");
        }
        assert_eq!(KNOWN_TYPES.len(), DEFINITIONS.len());
    }

    #[test]
    fn a_type_is_found_by_its_hash_with_its_sources() {
        let (_, hash) = hashes().find(|(of, _)| *of == "lifecycle_msgs/srv/GetState").unwrap();
        let known = find_type(hash.parse().unwrap()).unwrap();
        assert_eq!(known.description.main.type_name, "lifecycle_msgs/srv/GetState");
        let sources = known.sources();
        let encodings: Vec<_> =
            sources.iter().map(|of| (of.type_name.as_str(), of.encoding)).collect();
        assert_eq!(
            encodings,
            [
                ("lifecycle_msgs/srv/GetState", "srv"),
                ("builtin_interfaces/msg/Time", "msg"),
                ("lifecycle_msgs/msg/State", "msg"),
                ("lifecycle_msgs/srv/GetState_Event", "implicit"),
                ("lifecycle_msgs/srv/GetState_Request", "implicit"),
                ("lifecycle_msgs/srv/GetState_Response", "implicit"),
                ("service_msgs/msg/ServiceEventInfo", "msg"),
            ]
        );
        assert_eq!(sources[1].contents, "int32 sec\nuint32 nanosec\n");
        let unknown = format!("RIHS01_{}", "0".repeat(64)).parse().unwrap();
        assert!(find_type(unknown).is_none());
    }

    #[test]
    fn fields_that_no_definition_of_ros_has_are_refused() {
        for text in ["int12", "string<=x", "uint8<=3", "uint8[x]", "uint8[<=]", "Header"] {
            assert_eq!(field_type_of(text), None, "{text}");
        }
        let bounded = field_type_of("string<=255[<=3]").unwrap();
        assert_eq!((bounded.type_id, bounded.capacity, bounded.string_capacity), (117, 3, 255));
    }
}

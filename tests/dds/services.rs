//! The services of the node, called as CycloneDDS's ROS calls them.

use super::metadata_client::MetadataClient;
use super::peer::{PATIENCE, Peer, events, turn};
use det_post_ros::cdr::Reader;
use det_post_ros::messages::find_type;
use det_post_ros::middleware::{
    DescribedType, Middleware, MiddlewareEvent, Request, Response, ServiceKind,
};
use det_post_ros::{
    LifecycleState, LifecycleTransition, LoggerLevel, Parameter, ParameterDescriptor,
    ParameterRange, ParameterType, ParameterValue, Remaps,
};
use serde_json::{Value, json};
use std::sync::{Mutex, mpsc};

/// A stateless node: its responses show the requests.
fn answer(request: Request) -> Response {
    let refused = |parameter: &Parameter| match &parameter.value {
        ParameterValue::Number(value) if *value > 1.0 => {
            Err(format!("{} is {value}; 0 to 1 are allowed", parameter.name))
        }
        _ => Ok(()),
    };
    match request {
        Request::ListParameters { prefixes, depth } => {
            Response::Names { names: vec![format!("depth {depth}")], prefixes }
        }
        Request::GetParameters(names) => {
            Response::Values(names.into_iter().map(ParameterValue::Text).collect())
        }
        Request::GetParameterTypes(names) => {
            Response::Types(names.iter().map(|_| ParameterType::Numbers).collect())
        }
        Request::DescribeParameters(names) => {
            Response::Descriptors(names.into_iter().map(descriptor).collect())
        }
        Request::SetParameters(parameters) => {
            Response::SetResults(parameters.iter().map(refused).collect())
        }
        Request::SetSwitch(_) => Response::SetResult(Err("no switch".into())),
        Request::SetClasses(_) => Response::Nothing,
        Request::SetParametersAtomically(parameters) => {
            Response::SetResult(parameters.iter().try_for_each(refused))
        }
        Request::ChangeState { id, label } => {
            Response::Changed((id, label.as_str()) == (3, "activate"))
        }
        Request::GetState => Response::State(LifecycleState::Activating),
        Request::GetAvailableStates => Response::States(LifecycleState::ALL.to_vec()),
        Request::GetLoggerLevels(names) => Response::LoggerLevels(
            names.into_iter().map(|name| LoggerLevel { name, level: 20 }).collect(),
        ),
        Request::SetLoggerLevels(levels) => Response::SetResults(
            levels
                .iter()
                .map(|of| if of.level == 10 { Ok(()) } else { Err("no".into()) })
                .collect(),
        ),
        Request::GetTypeDescription { type_hash, with_sources } => {
            let known = type_hash.parse().ok().and_then(find_type);
            let described = known.map(|known| DescribedType {
                description: known.description.clone(),
                sources: if with_sources { known.sources() } else { Vec::new() },
            });
            Response::TypeDescription(described.ok_or_else(|| "unknown".to_owned()))
        }
        Request::GetAvailableTransitions | Request::GetTransitionGraph => {
            Response::Transitions(vec![LifecycleTransition {
                id: 3,
                label: "activate",
                start: LifecycleState::Inactive,
                goal: LifecycleState::Activating,
            }])
        }
    }
}

fn descriptor(name: String) -> ParameterDescriptor {
    let range = match name.as_str() {
        "integer" => Some(ParameterRange::Integer { from: -2, to: 7 }),
        "number" => Some(ParameterRange::Number { from: 0.25, to: 0.75 }),
        _ => None,
    };
    ParameterDescriptor {
        name,
        parameter_type: ParameterType::Number,
        description: "a threshold".to_owned(),
        additional_constraints: "none".to_owned(),
        is_read_only: true,
        is_dynamically_typed: false,
        range,
    }
}

fn call(peer: &mut Peer, service: &str, type_name: &str, request: &Value) -> Value {
    let service = format!("/det_post/{service}");
    let command = json!({"op": "call", "service": service, "type": type_name, "request": request});
    peer.ask(&command)
}

fn parameter(name: &str, number: u8, field: &str, value: &Value) -> Value {
    json!({"name": name, "value": {"type": number, field: value}})
}

#[test]
fn a_switch_answers_under_its_own_name() {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let mut middleware = turn.middleware_in("yolo", "yolo_node", Remaps::default());
    let set = |request| match request {
        Request::SetSwitch(false) => Response::SetResult(Err("it stays on".to_owned())),
        _ => Response::SetResult(Ok(())),
    };
    middleware.serve_named(ServiceKind::SetSwitch, "enable", Box::new(set)).unwrap();
    for (on, reason) in [(true, ""), (false, "it stays on")] {
        let answer = peer.ask(&json!({"op": "call", "service": "/yolo/enable",
            "type": "std_srvs/srv/SetBool", "request": {"data": on}}));
        assert_eq!((&answer["success"], &answer["message"]), (&json!(on), &json!(reason)));
    }
}

#[test]
fn classes_are_set_under_a_separate_name() {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let mut middleware = turn.middleware_in("yolo", "yolo_node", Remaps::default());
    let (sender, requests) = mpsc::channel();
    let set = move |request| {
        sender.send(request).unwrap();
        Response::Nothing
    };
    middleware.serve_named(ServiceKind::SetClasses, "set_classes", Box::new(set)).unwrap();
    for classes in [&["helmet", "safety vest"][..], &[]] {
        let answer = peer.ask(&json!({"op": "call", "service": "/yolo/set_classes",
            "type": "yolo_msgs/srv/SetClasses", "request": {"classes": classes}}));
        assert_eq!(answer["nothing"], json!(0), "{answer}");
        let expected = classes.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(requests.try_recv(), Ok(Request::SetClasses(expected)));
    }
}

#[test]
fn every_service_answers() {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let mut middleware = turn.middleware("det_post");
    middleware.serve(Box::new(answer)).unwrap();
    let peer = &mut peer;

    let of = "rcl_interfaces/srv/ListParameters";
    let told = call(peer, "list_parameters", of, &json!({"prefixes": ["camera"], "depth": 3}));
    assert_eq!((&told["names"], &told["prefixes"]), (&json!(["depth 3"]), &json!(["camera"])));

    let of = "rcl_interfaces/srv/GetParameters";
    let told = call(peer, "get_parameters", of, &json!({"names": ["a", "b.c"]}));
    assert_eq!(told["values"][1]["type"], json!(4));
    assert_eq!(told["values"][1]["string_value"], json!("b.c"));

    let of = "rcl_interfaces/srv/GetParameterTypes";
    let told = call(peer, "get_parameter_types", of, &json!({"names": ["a", "b", "c"]}));
    assert_eq!(told["types"], json!([8, 8, 8]));

    let of = "rcl_interfaces/srv/DescribeParameters";
    let told = call(peer, "describe_parameters", of, &json!({"names": ["integer", "number", "x"]}));
    let [integer, number, other] = [0, 1, 2].map(|i| &told["descriptors"][i]);
    assert_eq!(integer["integer_range"], json!([{"from_value": -2, "to_value": 7, "step": 1}]));
    assert_eq!(
        number["floating_point_range"],
        json!([{"from_value": 0.25, "to_value": 0.75, "step": 0.0}])
    );
    assert_eq!((&other["integer_range"], &other["floating_point_range"]), (&json!([]), &json!([])));
    assert_eq!((&other["description"], &other["read_only"]), (&json!("a threshold"), &json!(true)));

    let of = "rcl_interfaces/srv/GetLoggerLevels";
    let told = call(peer, "get_logger_levels", of, &json!({"names": ["det_post"]}));
    assert_eq!(told["levels"], json!([{"name": "det_post", "level": 20}]));

    let of = "rcl_interfaces/srv/SetLoggerLevels";
    let levels = json!([{"name": "a", "level": 10}, {"name": "b", "level": 40}]);
    let told = call(peer, "set_logger_levels", of, &json!({"levels": levels}));
    let results =
        json!([{"successful": true, "reason": ""}, {"successful": false, "reason": "no"}]);
    assert_eq!(told["results"], results);

    let of = "type_description_interfaces/srv/GetTypeDescription";
    let point_hash = "RIHS01_6963084842a9b04494d6b2941d11444708d892da2f4b09843b9c43f42a7f6881";
    for (type_hash, with_sources) in [(point_hash, true), (point_hash, false), ("RIHS01_0", true)] {
        let request = json!({"type_name": "geometry_msgs/msg/Point", "type_hash": type_hash,
            "include_type_sources": with_sources});
        let told = call(peer, "get_type_description", of, &request);
        let is_known = type_hash == point_hash;
        assert_eq!(told["successful"], json!(is_known), "{told}");
        assert_eq!(told["failure_reason"], json!(if is_known { "" } else { "unknown" }));
        let double = json!({"type_id": 11, "capacity": 0, "string_capacity": 0,
            "nested_type_name": ""});
        let fields =
            ["x", "y", "z"].map(|name| json!({"name": name, "type": double, "default_value": ""}));
        let (name, fields) =
            if is_known { ("geometry_msgs/msg/Point", &fields[..]) } else { ("", &[][..]) };
        let main = &told["type_description"]["type_description"];
        assert_eq!(*main, json!({"type_name": name, "fields": fields}));
        let num_sources = told["type_sources"].as_array().unwrap().len();
        assert_eq!(num_sources, usize::from(is_known && with_sources));
    }

    let of = "lifecycle_msgs/srv/GetState";
    let told = call(peer, "get_state", of, &json!({}));
    assert_eq!(told["current_state"], json!({"id": 13, "label": "activating"}));

    let of = "lifecycle_msgs/srv/GetAvailableStates";
    let told = call(peer, "get_available_states", of, &json!({}));
    assert_eq!(told["available_states"].as_array().unwrap().len(), LifecycleState::ALL.len());

    for service in ["get_available_transitions", "get_transition_graph"] {
        let of = "lifecycle_msgs/srv/GetAvailableTransitions";
        let told = call(peer, service, of, &json!({}));
        let expected = json!([{"transition": {"id": 3, "label": "activate"},
            "start_state": {"id": 2, "label": "inactive"},
            "goal_state": {"id": 13, "label": "activating"}}]);
        assert_eq!(told["available_transitions"], expected);
    }

    let of = "lifecycle_msgs/srv/ChangeState";
    let request = json!({"transition": {"id": 3, "label": "activate"}});
    assert_eq!(call(peer, "change_state", of, &request)["success"], json!(true));
    let request = json!({"transition": {"id": 9}});
    assert_eq!(call(peer, "change_state", of, &request)["success"], json!(false));
}

#[test]
fn parameters_of_every_type_are_set() {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let mut middleware = turn.middleware("det_post");
    let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = std::sync::Arc::clone(&asked);
    middleware
        .serve(Box::new(move |request| {
            noted.lock().unwrap().push(request.clone());
            answer(request)
        }))
        .unwrap();
    let parameters = [
        parameter("unset", 0, "integer_value", &json!(3)),
        parameter("flag", 1, "bool_value", &json!(true)),
        parameter("integer", 2, "integer_value", &json!(i64::MIN)),
        parameter("number", 3, "double_value", &json!(1.5)),
        parameter("text", 4, "string_value", &json!("naïve")),
        parameter("bytes", 5, "byte_array_value", &json!([0, 255])),
        parameter("flags", 6, "bool_array_value", &json!([true, false])),
        parameter("integers", 7, "integer_array_value", &json!([-1, 2])),
        parameter("numbers", 8, "double_array_value", &json!([0.5, -0.25])),
        parameter("texts", 9, "string_array_value", &json!(["", "b"])),
        parameter("strange", 77, "integer_value", &json!(3)),
    ];
    let of = "rcl_interfaces/srv/SetParameters";
    let told = call(&mut peer, "set_parameters", of, &json!({"parameters": parameters}));
    let results = told["results"].as_array().unwrap();
    assert_eq!(results.len(), parameters.len());
    let reason = "number is 1.5; 0 to 1 are allowed";
    for (i, result) in results.iter().enumerate() {
        let expected = match i {
            3 => json!({"successful": false, "reason": reason}),
            _ => json!({"successful": true, "reason": ""}),
        };
        assert_eq!(*result, expected, "{}", parameters[i]);
    }
    let values = [
        ("unset", ParameterValue::NotSet),
        ("flag", ParameterValue::Flag(true)),
        ("integer", ParameterValue::Integer(i64::MIN)),
        ("number", ParameterValue::Number(1.5)),
        ("text", ParameterValue::Text("naïve".to_owned())),
        ("bytes", ParameterValue::Bytes(vec![0, 255])),
        ("flags", ParameterValue::Flags(vec![true, false])),
        ("integers", ParameterValue::Integers(vec![-1, 2])),
        ("numbers", ParameterValue::Numbers(vec![0.5, -0.25])),
        ("texts", ParameterValue::Texts(vec![String::new(), "b".to_owned()])),
        ("strange", ParameterValue::Unknown(77)),
    ];
    let expected: Vec<_> =
        values.map(|(name, value)| Parameter { name: name.to_owned(), value }).into();
    assert_eq!(asked.lock().unwrap()[..], [Request::SetParameters(expected)]);

    let of = "rcl_interfaces/srv/SetParametersAtomically";
    let told = call(&mut peer, "set_parameters_atomically", of, &json!({"parameters": parameters}));
    assert_eq!(told["result"], json!({"successful": false, "reason": reason}));
}

#[test]
fn a_client_that_discovers_late_gets_its_response() {
    let turn = turn();
    // Once only with the service, once with another client that is ready.
    let late_by = |seconds: f64, with_other: bool| {
        let turn = turn.elsewhere();
        let Some(mut peer) = turn.peer() else { return };
        let mut middleware = turn.middleware("det_post");
        middleware.serve(Box::new(answer)).unwrap();
        let mut other = if with_other { turn.peer() } else { None };
        if let Some(other) = &mut other {
            let told = call(other, "get_state", "lifecycle_msgs/srv/GetState", &json!({}));
            assert_eq!(told["current_state"]["id"], json!(13));
        }
        let told = peer.ask(&json!({"op": "call", "service": "/det_post/get_state",
            "hasty": seconds, "type": "lifecycle_msgs/srv/GetState", "request": {}}));
        assert_eq!(told["current_state"]["id"], json!(13), "{seconds} s, {with_other}");
    };
    std::thread::scope(|scope| {
        for with_other in [false, true] {
            let late_by = &late_by;
            // The name of the test, for what it skips.
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            let run = move || {
                for seconds in [0.0001, 0.01, 0.1, 0.5] {
                    late_by(seconds, with_other);
                }
            };
            std::thread::Builder::new().name(name).spawn_scoped(scope, run).unwrap();
        }
    });
}

#[test]
fn services_answer_during_a_transition() {
    let turn = turn();
    let (Some(mut slow), Some(mut quick)) = (turn.peer(), turn.peer()) else { return };
    let mut middleware = turn.middleware("det_post");
    // A transition begins, and ends when the test lets it.
    let (begin, begun) = mpsc::channel();
    let (end, may_end) = mpsc::channel();
    let may_end = Mutex::new(may_end);
    let handler = move |request| {
        if matches!(request, Request::ChangeState { .. }) {
            begin.send(()).unwrap();
            may_end.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        }
        answer(request)
    };
    middleware.serve(Box::new(handler)).unwrap();
    let get = |peer: &mut Peer| {
        let told = call(peer, "get_state", "lifecycle_msgs/srv/GetState", &json!({}));
        assert_eq!(told["current_state"]["id"], json!(13));
    };
    get(&mut quick);
    let transition = json!({"transition": {"id": 3, "label": "activate"}});
    let change = json!({"op": "call", "service": "/det_post/change_state",
        "type": "lifecycle_msgs/srv/ChangeState", "request": transition});
    slow.begin(&change);
    begun.recv_timeout(PATIENCE).unwrap();
    get(&mut quick);
    end.send(()).unwrap();
    assert_eq!(slow.finish()["success"], json!(true));
}

#[test]
fn a_client_whose_identity_is_metadata_gets_a_response() {
    let turn = turn();
    let mut middleware = turn.middleware("det_post");
    middleware.serve(Box::new(answer)).unwrap();
    let client =
        MetadataClient::new(turn.domain, "/det_post/get_state", "lifecycle_msgs/srv/GetState");
    for _ in 0..3 {
        let expected = [&[13, 0, 0, 0, 11, 0, 0, 0], "activating\0".as_bytes(), &[0]].concat();
        assert_eq!(client.ask(&[0, 1, 0, 0, 0, 0, 0, 0])[4..], expected);
    }
}

/// More than a datagram: the metadata precedes the first fragment.
#[test]
fn such_a_client_gets_a_response_in_fragments() {
    let turn = turn();
    let mut middleware = turn.middleware("det_post");
    let names: Vec<String> = (0..400).map(|i| format!("camera.parameter_{i}")).collect();
    let listed = names.clone();
    middleware
        .serve(Box::new(move |_| Response::Names { names: listed.clone(), prefixes: Vec::new() }))
        .unwrap();
    let service_type = "rcl_interfaces/srv/ListParameters";
    let client = MetadataClient::new(turn.domain, "/det_post/list_parameters", service_type);
    for _ in 0..3 {
        // No prefixes; any depth.
        let response = client.ask(&[&[0, 1, 0, 0], &[0; 16][..]].concat());
        let mut reader = Reader::new("response", &response).unwrap();
        assert_eq!(reader.sequence_len(4).unwrap(), names.len());
        for name in &names {
            assert_eq!(reader.str().unwrap(), name);
        }
    }
}

#[test]
fn a_malformed_request_is_reported_and_the_next_one_served() {
    let turn = turn();
    let Some(mut peer) = turn.peer() else { return };
    let mut middleware = turn.middleware("det_post");
    let heard = events(&mut middleware);
    middleware.serve(Box::new(answer)).unwrap();
    let service = "/det_post/get_parameters";
    let of = "rcl_interfaces/srv/GetParameters";
    // The endpoints are matched once a call went through.
    assert!(!call(&mut peer, "get_parameters", of, &json!({"names": []})).is_null());
    let request_type = "rcl_interfaces.srv.dds_.GetParameters_Request_";
    peer.ask(&json!({"op": "blob", "id": "bad", "reliable": true, "type": request_type,
        "topic": "rq/det_post/get_parametersRequest"}));
    peer.wait_matched("bad", 1);
    // The rest of the header before a request: four bytes and a number.
    let header = "111111112222222222222222";
    let cases = [
        ("11111111".to_owned(), "8 bytes are required"),
        (format!("{header}ffffffff"), "sequence of 4294967295 elements"),
        (format!("{header}0100000002000000ffff0000"), "ends in 0xff"),
        (
            format!("{header}{}", "00".repeat(70_000)),
            "request of 70016 bytes exceeds the limit of 65536",
        ),
    ];
    for (i, (hex, reason)) in cases.iter().enumerate() {
        peer.ask(&json!({"op": "send", "id": "bad", "hex": hex}));
        let told = heard.wait(|all| all.len() > i);
        let MiddlewareEvent::Refused { service: of, reason: told } = &told[i] else {
            panic!("{told:?}");
        };
        assert_eq!(of, service);
        assert!(told.contains(reason), "{told:?} does not say {reason:?}");
    }
    let told = call(&mut peer, "get_parameters", of, &json!({"names": ["still here"]}));
    assert_eq!(told["values"][0]["string_value"], json!("still here"));
}

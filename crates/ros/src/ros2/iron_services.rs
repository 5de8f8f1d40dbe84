//! The services that nodes have from ROS 2 Iron on. The cfg `iron_services`, which
//! the build script sets, tells that r2r has their types.

use r2r::rcl_interfaces::{msg as rcl, srv};
use r2r::type_description_interfaces::{msg as description, srv as description_srv};
use tokio::task::LocalSet;

use super::parameters::set_result;
use super::services::{Responder, serve};
use crate::middleware::{DescribedType, Request, Response, ServiceKind};
use crate::{IndividualTypeDescription, LoggerLevel, TypeSource};

/// Serves the levels of loggers and the descriptions of types.
pub(super) fn serve_all(
    node: &mut r2r::Node,
    tasks: &LocalSet,
    responder: &Responder,
) -> r2r::Result<()> {
    serve::<srv::GetLoggerLevels::Service>(
        node,
        tasks,
        responder,
        ServiceKind::GetLoggerLevels,
        |request| Request::GetLoggerLevels(request.names),
        |response| match response {
            Response::LoggerLevels(levels) => Some(srv::GetLoggerLevels::Response {
                levels: levels
                    .into_iter()
                    .map(|LoggerLevel { name, level }| rcl::LoggerLevel { name, level })
                    .collect(),
            }),
            _ => None,
        },
    )?;
    serve::<srv::SetLoggerLevels::Service>(
        node,
        tasks,
        responder,
        ServiceKind::SetLoggerLevels,
        |request| {
            let levels = request.levels.into_iter();
            let level = |rcl::LoggerLevel { name, level }| LoggerLevel { name, level };
            Request::SetLoggerLevels(levels.map(level).collect())
        },
        |response| match response {
            Response::SetResults(results) => Some(srv::SetLoggerLevels::Response {
                results: results.into_iter().map(logger_result).collect(),
            }),
            _ => None,
        },
    )?;
    serve::<description_srv::GetTypeDescription::Service>(
        node,
        tasks,
        responder,
        ServiceKind::GetTypeDescription,
        |request| Request::GetTypeDescription {
            type_hash: request.type_hash,
            with_sources: request.include_type_sources,
        },
        |response| match response {
            Response::TypeDescription(described) => Some(type_description(described)),
            _ => None,
        },
    )
}

fn logger_result(result: crate::SetResult) -> rcl::SetLoggerLevelsResult {
    let rcl::SetParametersResult { successful, reason } = set_result(result);
    rcl::SetLoggerLevelsResult { successful, reason }
}

fn type_description(
    described: Result<DescribedType, String>,
) -> description_srv::GetTypeDescription::Response {
    match described {
        Ok(DescribedType { description: of, sources }) => {
            description_srv::GetTypeDescription::Response {
                successful: true,
                type_description: description::TypeDescription {
                    type_description: individual(of.main),
                    referenced_type_descriptions: of
                        .referenced
                        .into_iter()
                        .map(individual)
                        .collect(),
                },
                type_sources: sources.into_iter().map(source).collect(),
                ..Default::default()
            }
        }
        Err(failure_reason) => {
            description_srv::GetTypeDescription::Response { failure_reason, ..Default::default() }
        }
    }
}

fn individual(one: IndividualTypeDescription) -> description::IndividualTypeDescription {
    let fields = one.fields.into_iter().map(|field| description::Field {
        name: field.name,
        type_: description::FieldType {
            type_id: field.field_type.type_id,
            capacity: field.field_type.capacity,
            string_capacity: field.field_type.string_capacity,
            nested_type_name: field.field_type.nested_type_name,
        },
        default_value: String::new(),
    });
    let fields = fields.collect();
    description::IndividualTypeDescription { type_name: one.type_name, fields }
}

fn source(source: TypeSource) -> description::TypeSource {
    description::TypeSource {
        type_name: source.type_name,
        encoding: source.encoding.to_owned(),
        raw_file_contents: source.contents.to_owned(),
    }
}

//! A bounded RTPS participant for ROS 2 graphs.
//!
//! [`Participant`] joins a domain; [`Reader`] and [`Writer`] take and give
//! samples as raw CDR.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        reason = "tests fail by panicking"
    )
)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod api;
mod bounded;
mod discovery;
mod error;
mod io;
mod participant;
mod qos;
mod reader;
mod settings;
mod types;
mod wire;
mod writer;

pub use api::{Participant, Reader, Writer};
pub use error::Error;
pub use qos::{Durability, History, Qos, Reliability};
pub use settings::{Interfaces, Limits, ParticipantSettings, ReaderSettings, WriterSettings};
pub use types::{
    Assembler, EndpointInfo, EndpointKind, EntityId, Event, Guid, GuidPrefix, Mismatch,
    ParticipantInfo, RemovalReason, Sample, SampleData, SampleIdentity, Statistics, Target,
    WriteOptions,
};

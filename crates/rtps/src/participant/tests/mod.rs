//! Participants without sockets: on a virtual network, in virtual time. Sessions with peers of
//! other implementations are taken live, and then played again.

#[path = "../../../../testing/src/dds_peers.rs"]
mod dds_peers;
#[path = "../../../../../tests/common/domain.rs"]
mod domain;
#[path = "../../../../testing/src/require.rs"]
mod require;

mod bounds;
mod capture;
mod faults;
mod losses;
mod mutated;
mod net;
mod peer;
mod simulation;
mod site;
mod tables;

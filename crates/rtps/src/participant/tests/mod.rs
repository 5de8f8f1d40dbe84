//! Participants without sockets: on a virtual network, in virtual time.

mod bounds;
mod faults;
mod losses;
mod mutated;
mod net;
mod peer;
mod simulation;
mod site;
mod tables;

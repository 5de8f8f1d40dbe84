//! The C ABI: the header, and programs in C and C++ that are compiled and run.

mod header;
mod package;
mod programs;
mod recordings;

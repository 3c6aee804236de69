//! The HTTP service and its command line, through the real program.

#[path = "../common/mod.rs"]
mod common;

mod appends;
mod certificates;
mod compression;
mod connections;
mod docs;
mod honest;
mod jobs;
mod ledger;
mod limits;
mod malformed;
mod openapi;
mod private;
mod security;
mod sharing;
mod simulate;

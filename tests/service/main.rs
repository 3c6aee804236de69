//! The HTTP service and its command line, through the real program.

#[path = "../common/mod.rs"]
mod common;

mod certificates;
mod compression;
mod connections;
mod docs;
mod fresh;
mod honest;
mod honest_worlds;
mod jobs;
mod ledger;
mod malformed;
mod openapi;
mod security;
mod sharing;
mod simulate;

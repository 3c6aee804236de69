//! The HTTP service and its command line, through the real program.

#[path = "../common/mod.rs"]
mod common;

mod abuse;
mod action_lists;
mod appends;
mod candidates;
mod certificates;
mod checks;
mod command_line;
mod compression;
mod connections;
mod dashboard;
mod digests;
mod docs;
mod fresh;
mod gates;
mod honest;
mod honest_worlds;
mod imports;
mod jobs;
mod ledger;
mod limits;
mod malformed;
mod openapi;
mod outcomes;
mod partials;
mod plans;
mod private;
mod roles;
mod round_two;
mod security;
mod sharing;
mod simulate;
mod webhooks;

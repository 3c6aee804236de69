//! Logs in every format, valid, malformed and damaged, read into memory: no store and no server.

#[path = "../../../../tests/logs/mod.rs"]
mod logs;

mod added;
mod checks;
mod columns;
mod damage;
mod files;
mod formats;
mod honest;
mod malformed;
mod outcomes;
mod plain;
mod policies;
mod rows;
mod sets;
mod support;

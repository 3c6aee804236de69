//! Logs in every format, valid, malformed, damaged and real, through the real program.

#[path = "../common/mod.rs"]
mod common;
#[path = "../logs/mod.rs"]
mod logs;
#[path = "../support/mod.rs"]
mod support;

mod formats;
mod fuzz;
mod malformed;
mod properties;
mod reallogs;
mod several;
mod uploads;

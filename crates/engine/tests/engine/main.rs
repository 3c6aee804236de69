//! The engine against reference values, as properties, and through its one entry point.

mod golden;
mod jobs;
#[path = "../common/light_kl.rs"]
mod light_kl;
mod modules;
mod properties;

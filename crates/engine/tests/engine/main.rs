//! The engine against reference values, as properties, and through its one entry point.

mod golden;
mod jobs;
mod modules;
mod properties;

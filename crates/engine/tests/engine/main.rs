//! The engine against reference values, as properties, and through its one entry point.

mod arithmetic;
mod beyond_memory;
mod budget;
mod decisions;
#[path = "../common/given.rs"]
mod given;
mod given_games;
mod golden;
mod guardrails;
mod honest;
mod jobs;
mod kernels;
#[path = "../common/light_kl.rs"]
mod light_kl;
mod lucky;
mod modules;
mod partials;
mod properties;
mod set_specs;
mod sets;

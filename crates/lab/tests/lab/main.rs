//! The paper's datasets, the conversion of examples into logs, the experiments, and the documents that show
//! their results.

#[path = "../../../../benches/common/fashion.rs"]
mod fashion;

mod benchmark;
mod compare;
mod conversion;
mod fashion_figures;
mod loaders;
mod reproduction;
mod shown;
mod simulate;

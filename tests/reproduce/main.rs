//! The reproduction's data: loaders on files that the tests write, the conversion against an
//! independent recomputation, FashionMNIST as Debian has it, `guarantor simulate`, and what is made of
//! results.

#[path = "../common/mod.rs"]
mod common;
#[path = "../../benches/common/fashion.rs"]
mod fashion;

mod conversion;
mod loaders;
mod shown;
mod simulate;

//! The reproduction's data: loaders on files that the tests write, the conversion against an
//! independent recomputation, FashionMNIST as Debian has it, and `guarantor simulate`.

#[path = "../common/mod.rs"]
mod common;
#[path = "../../benches/common/fashion.rs"]
mod fashion;

mod conversion;
mod loaders;
mod simulate;

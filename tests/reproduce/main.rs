//! The reproduction's data: loaders on files that the tests write, the conversion against an
//! independent recomputation, and FashionMNIST as Debian has it.

#[path = "../../benches/common/fashion.rs"]
mod fashion;

mod conversion;

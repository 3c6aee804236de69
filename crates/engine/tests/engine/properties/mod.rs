//! Properties that hold for every input: order, normalization, gradients, invariance, and that what is
//! degenerate stays finite. Cases come from fixed seeds, so that a run can be repeated.

mod bounds;
mod degenerate;
mod gradients;
mod invariance;
mod policies;
mod small;

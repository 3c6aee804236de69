//! Properties that hold for every input: order, normalization, gradients, invariance, and finite results on
//! degenerate inputs. Cases come from fixed seeds, so runs are repeatable.

mod bounds;
mod degenerate;
mod gradients;
mod invariance;
mod policies;
mod small;

//! Learning, docs/math.md#learning: minimizing a bound over the parameters of a policy.

pub mod adam;
pub mod bound_learner;
pub mod lbfgs;
pub mod sweep;

//! The commands of `guarantor-lab`.

pub mod benchmark;
pub mod compare;
mod log_args;
pub mod reproduce;
pub mod simulate;

/// An error for the terminal.
pub type CommandError = Box<dyn std::error::Error + Send + Sync>;

/// Parses α.
fn temperature(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(alpha) if alpha.is_finite() && alpha >= 0.0 => Ok(alpha),
        _ => Err("must be a number of at least 0".into()),
    }
}

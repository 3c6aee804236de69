//! The commands of `guarantor-lab`.

pub mod reproduce;
pub mod simulate;

/// A failure in one sentence, for the terminal.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// α, as the command line takes it.
fn temperature(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(alpha) if alpha.is_finite() && alpha >= 0.0 => Ok(alpha),
        _ => Err("an inverse temperature is a number of at least 0".into()),
    }
}

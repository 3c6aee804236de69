//! Structured logs on standard error. Standard output is for results.

use std::io::IsTerminal;

use guarantor::config::{Config, ConfigError, LogFormat};
use tracing_subscriber::EnvFilter;

/// Starts logging as configured.
///
/// # Errors
/// If `log_filter` is not a valid filter.
pub fn start(config: &Config) -> Result<(), ConfigError> {
    let filter = EnvFilter::try_new(&config.log_filter)
        .map_err(|error| ConfigError(format!("log_filter {:?} is not valid: {error}", config.log_filter)))?;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(super::colors(std::io::stderr().is_terminal()))
        .with_writer(std::io::stderr);
    match config.log_format {
        LogFormat::Json => subscriber.json().flatten_event(true).with_span_list(false).init(),
        LogFormat::Pretty => subscriber.with_target(false).init(),
    }
    Ok(())
}

//! `guarantor serve`: runs the HTTP service.

use std::path::PathBuf;

use clap::Args;
use guarantor::config::{Config, ConfigError, DEFAULTS, Overrides};
use guarantor::http::{Server, ServerError};
use guarantor::store::{Bootstrap, Store, create_private_files};

use super::{Failure, logging, runtime};

/// The arguments of `guarantor serve`. The most common settings have flags; all of them can be set in the
/// file and in the environment.
#[derive(Args)]
pub struct ServeArgs {
    /// Settings file (TOML). --print-config prints every setting with its default.
    #[arg(long, env = "GUARANTOR_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print every setting with its default and its meaning, and exit.
    #[arg(long)]
    print_config: bool,
    /// Address and port to listen on [default: 127.0.0.1:8080]. Port 0 chooses a free port.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// What this server does: all, api (requests, no jobs) or worker (jobs, no requests) [default: all].
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Data directory [default: data].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Serve HTTPS with this certificate chain (PEM). Requires --tls-key.
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// The private key of the certificate (PEM).
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// Number of jobs that run at the same time.
    #[arg(long, value_name = "N")]
    workers: Option<String>,
    /// Number of compute threads that jobs share. 0 uses all processors.
    #[arg(long, value_name = "N")]
    compute_threads: Option<String>,
    /// Log format: pretty or json.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Log filter, in the syntax of RUST_LOG.
    #[arg(long, value_name = "FILTER")]
    log_filter: Option<String>,
    /// Allow listening on a public address without API keys.
    #[arg(long)]
    insecure_no_auth: bool,
}

impl ServeArgs {
    fn overrides(&self) -> Overrides {
        let insecure = self.insecure_no_auth.then(|| "true".to_owned());
        let flags = [
            ("listen", &self.listen),
            ("role", &self.role),
            ("data_dir", &self.data_dir),
            ("tls_cert", &self.tls_cert),
            ("tls_key", &self.tls_key),
            ("workers", &self.workers),
            ("compute_threads", &self.compute_threads),
            ("log_format", &self.log_format),
            ("log_filter", &self.log_filter),
            ("insecure_no_auth", &insecure),
        ];
        flags.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }
}

/// Serves until SIGTERM or Ctrl-C.
pub fn serve(args: ServeArgs) -> Result<(), Failure> {
    if args.print_config {
        super::print_text(DEFAULTS)?;
        return Ok(());
    }
    create_private_files();
    let config = Config::load(args.config.as_deref(), &args.overrides())?;
    logging::start(&config)?;
    let runtime = runtime()?;
    let done = runtime.block_on(async {
        bootstrap(&config).await?;
        let stop = told_to_stop();
        let server = Server::start(config).await?;
        let (url, health_url) = (server.url()?, server.health_url()?);
        let health = health_url.as_ref().map_or(String::new(), |url| format!("Health checks are on {url}\n"));
        // In one write, because a reader may stop after the first line. The server runs even if nobody reads
        // it.
        let _ = super::print_text(&format!("Guarantor listens on {url}\n{health}"));
        tracing::info!(url, health_url, version = guarantor_engine::VERSION, "listening");
        server.run(stop).await
    });
    // Whatever is still running has had its time to finish, and the store survives a sudden exit.
    runtime.shutdown_background();
    Ok(done?)
}

/// Adds the API key in `bootstrap_key_file`. This is before the server starts, because one without keys does
/// not listen on addresses that others can reach.
async fn bootstrap(config: &Config) -> Result<(), ServerError> {
    let file = &config.bootstrap_key_file;
    if file.as_os_str().is_empty() {
        return Ok(());
    }
    let workspace = config.bootstrap_workspace.parse().map_err(|error| ConfigError(format!("{error}")))?;
    let store = Store::open_rows(&config.places()?).await?;
    match store.bootstrap_key(workspace, file).await? {
        Bootstrap::Added(key) => {
            tracing::info!(key = %key.id, workspace = %key.workspace, "added the key in bootstrap_key_file");
        }
        Bootstrap::Known(key) if key.workspace.as_str() != config.bootstrap_workspace => {
            tracing::warn!(key = %key.id, workspace = %key.workspace,
                "the key in bootstrap_key_file belongs to another workspace than bootstrap_workspace, and stays there");
        }
        Bootstrap::Known(_) => {}
        Bootstrap::Revoked => {
            tracing::warn!(
                "the key in bootstrap_key_file is revoked and stays so; put a new one into the file"
            );
        }
    }
    Ok(())
}

/// Waits for SIGTERM, which orchestrators send, or Ctrl-C. From this call on the signal does not end the process at once,
/// so call it before anybody can know that the server runs.
fn told_to_stop() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let terminate = signal(SignalKind::terminate());
    async move {
        match terminate {
            Ok(mut terminate) => tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            },
            Err(error) => {
                tracing::warn!(%error, "cannot handle SIGTERM; only Ctrl-C stops the server gracefully");
                let _ = tokio::signal::ctrl_c().await;
            }
        }
    }
}

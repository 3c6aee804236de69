//! `guarantor serve`.

use std::path::PathBuf;

use clap::Args;
use guarantor::config::{Config, DEFAULTS, Overrides};
use guarantor::http::Server;

use super::{Failure, logging, runtime};

/// The most used settings have flags; all of them can stand in the file or the environment.
#[derive(Args)]
pub struct ServeArgs {
    /// A file of settings; --print-config shows all of them with their defaults.
    #[arg(long, env = "GUARANTOR_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the documented default settings and exit.
    #[arg(long)]
    print_config: bool,
    /// Address and port; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Where everything is kept.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Serve https with this certificate, in PEM form; --tls-key goes with it.
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// The certificate's private key, in PEM form.
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// Jobs that run at the same time.
    #[arg(long, value_name = "N")]
    workers: Option<String>,
    /// Threads that they share for their arithmetic; 0 takes all.
    #[arg(long, value_name = "N")]
    compute_threads: Option<String>,
    /// pretty or json.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// What to log, in the syntax of RUST_LOG.
    #[arg(long, value_name = "FILTER")]
    log_filter: Option<String>,
    /// Serve addresses that others can reach without API keys.
    #[arg(long)]
    insecure_no_auth: bool,
}

impl ServeArgs {
    fn overrides(&self) -> Overrides {
        let insecure = self.insecure_no_auth.then(|| "true".to_owned());
        let flags = [
            ("listen", &self.listen),
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

pub fn serve(args: ServeArgs) -> Result<(), Failure> {
    if args.print_config {
        super::print_text(DEFAULTS)?;
        return Ok(());
    }
    let config = Config::load(args.config.as_deref(), &args.overrides())?;
    logging::start(&config)?;
    let runtime = runtime()?;
    let done = runtime.block_on(async {
        let server = Server::start(config).await?;
        let url = server.url()?;
        println!("Guarantor listens on {url}");
        tracing::info!(url, version = guarantor_engine::VERSION, "listening");
        server.run(told_to_stop()).await
    });
    // Whatever still runs was given its time; the store is safe against its sudden end.
    runtime.shutdown_background();
    Ok(done?)
}

/// SIGTERM, as orchestrators send, or Ctrl-C.
async fn told_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        },
        Err(error) => {
            tracing::warn!(%error, "SIGTERM cannot be caught; only Ctrl-C stops the server gently");
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}

//! `guarantor verify`: asks the server that issued a certificate to compute it again.

use std::path::PathBuf;

use clap::Args;

use super::client::{Client, expect};
use super::{Failure, Verdict};

#[derive(Args)]
pub struct VerifyArgs {
    /// The certificate, as `/v1/jobs/ID/certificate` gave it.
    certificate: PathBuf,
    /// The server that has the log.
    #[arg(long, env = "GUARANTOR_URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    #[arg(long, env = "GUARANTOR_API_KEY", hide_env_values = true, value_name = "KEY")]
    api_key: Option<String>,
}

pub fn verify(args: VerifyArgs) -> Result<Verdict, Failure> {
    let path = args.certificate.display();
    let document = std::fs::read(&args.certificate).map_err(|error| format!("{path}: {error}"))?;
    let client = Client::new(&args.url, args.api_key);
    let answer = expect(200, client.post("/v1/certificates/verify", "application/json", &document)?)?;
    for check in answer["checks"].as_array().into_iter().flatten() {
        let mark = if check["ok"] == true { "ok  " } else { "FAIL" };
        println!(
            "{mark}  {:<24}  {}",
            check["name"].as_str().unwrap_or(""),
            check["detail"].as_str().unwrap_or("")
        );
    }
    let valid = answer["valid"] == true;
    println!("{}", if valid { "valid" } else { "NOT VALID" });
    Ok(if valid { Verdict::Yes } else { Verdict::No })
}

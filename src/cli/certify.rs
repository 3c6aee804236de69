use super::{Failure, Verdict};
#[derive(clap::Args)]
pub struct CertifyArgs {}
pub fn certify(_: CertifyArgs) -> Result<Verdict, Failure> { Err("".into()) }

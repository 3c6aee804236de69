//! `guarantor`: serve, demo, certify, inspect, verify, openapi, simulate, backup, keys.

mod backup;
mod certify;
mod client;
mod demo;
mod inspect;
mod keys;
mod log_file;
mod logging;
mod report;
mod serve;
mod simulate;
mod verify;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Certifies policy improvements from logged decisions before they are rolled out.
#[derive(Parser)]
#[command(name = "guarantor", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the HTTP service. It needs no other service and no configuration.
    Serve(Box<serve::ServeArgs>),
    /// Show the whole journey: a server, a log, a job, a certificate.
    Demo(demo::DemoArgs),
    /// Certify from a log file with no server. Exit code 0: deploy, 1: keep, 2: error.
    Certify(certify::CertifyArgs),
    /// Say what a log file is like, and what to fix. Exit code 0: fine, 1: warnings, 2: cannot be used.
    Inspect(inspect::InspectArgs),
    /// Check a certificate: by its server, or here by its signature and its log. Exit code 0: valid, 1: not, 2: error.
    Verify(verify::VerifyArgs),
    /// Print the OpenAPI document.
    Openapi,
    /// Write a log of simulated decisions from a small world whose truth is known.
    Simulate(simulate::SimulateToyArgs),
    /// Copy the data directory, whole, while a server runs on it.
    Backup(backup::BackupArgs),
    /// Make, list and revoke API keys.
    Keys(keys::KeysArgs),
}

/// A failure in a sentence, for the terminal.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What a command found. Pipelines branch on the exit code, so an error is never 0 or 1.
pub enum Verdict {
    Yes,
    No,
}

pub fn run(cli: Cli) -> ExitCode {
    let done = match cli.command {
        Command::Serve(args) => serve::serve(*args).map(|()| Verdict::Yes),
        Command::Demo(args) => demo::demo(args).map(|()| Verdict::Yes),
        Command::Certify(args) => certify::certify(args),
        Command::Inspect(args) => inspect::inspect(args),
        Command::Verify(args) => verify::verify(args),
        Command::Openapi => print_text(&guarantor::http::document().to_string()).map(|()| Verdict::Yes),
        Command::Simulate(args) => simulate::simulate(args).map(|()| Verdict::Yes),
        Command::Backup(args) => backup::backup(args).map(|()| Verdict::Yes),
        Command::Keys(args) => keys::keys(args).map(|()| Verdict::Yes),
    };
    match done {
        Ok(Verdict::Yes) => ExitCode::SUCCESS,
        Ok(Verdict::No) => ExitCode::from(1),
        Err(failure) => {
            eprintln!("guarantor: {failure}");
            ExitCode::from(2)
        }
    }
}

/// To the standard output. Whoever reads it may have seen enough, as `head` has: that is no failure.
fn print_text(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

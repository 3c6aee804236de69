//! The command line: serve, demo, certify, recipe, partial, merge, plan, inspect, verify, openapi, simulate, backup,
//! keys.

mod backup;
mod certify;
mod client;
mod demo;
mod goals;
mod inspect;
mod keys;
mod log_file;
mod logging;
mod merge;
mod partial;
mod plan;
mod recipe;
mod rejections;
mod report;
mod serve;
mod simulate;
mod simulate_news;
mod simulate_shop;
mod summary;
mod verify;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Certifies policy improvements from logged decisions before they are rolled out
#[derive(Parser)]
#[command(name = "guarantor", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the HTTP service. It needs no other service and no configuration
    Serve(Box<serve::ServeArgs>),
    /// Show the whole workflow: start a server, upload a log, run a job, get a certificate
    Demo(demo::DemoArgs),
    /// Certify a policy from a log file, without a server
    ///
    /// Exit codes: 0 deploy, 1 keep, 2 error.
    Certify(certify::CertifyArgs),
    /// Freeze a recipe on the earliest part of a log that outgrows one machine
    ///
    /// A policy is learned on the log, or a candidate is taken, and everything is fixed that the sum over the other rows
    /// depends on. `guarantor partial` sums up partitions, and `guarantor merge` certifies.
    Recipe(Box<recipe::RecipeArgs>),
    /// Sum up one partition of a log by a recipe
    Partial(partial::PartialArgs),
    /// Certify the partials of a log, without a server
    ///
    /// The certificate does not depend on how the log was divided, nor on any order.
    ///
    /// Exit codes: 0 deploy, 1 keep, 2 error.
    Merge(merge::MergeArgs),
    /// Say how many rows would certify an improvement, before any log exists
    ///
    /// Exit codes: 0 a plan, 1 no number of rows can be promised, 2 error.
    Plan(Box<plan::PlanArgs>),
    /// Check a log file and report on its health
    ///
    /// Exit codes: 0 no warnings, 1 warnings, 2 the log cannot be used.
    Inspect(inspect::InspectArgs),
    /// Verify a certificate
    ///
    /// By default a server recomputes the certificate from the log that it has stored. With --public-key the
    /// signature is checked here, and with --log the numbers are recomputed here; neither needs a server.
    ///
    /// Exit codes: 0 valid, 1 not valid, or valid and keep with --require deploy, 2 error.
    Verify(verify::VerifyArgs),
    /// Print the OpenAPI document
    Openapi,
    /// Write a log of simulated decisions from a toy world with known truth
    Simulate(simulate::SimulateToyArgs),
    /// Copy a data directory, also while a server is running on it
    Backup(backup::BackupArgs),
    /// Create, list and revoke API keys
    Keys(keys::KeysArgs),
}

/// An error with a message for the terminal.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The result of a command. Pipelines branch on the exit code, so an error is neither 0 nor 1.
pub enum Verdict {
    /// Deploy, valid, or done: exit code 0.
    Yes,
    /// Keep, not valid, or with warnings: exit code 1.
    No,
}

/// Runs the command and returns the exit code.
pub fn run(cli: Cli) -> ExitCode {
    let done = match cli.command {
        Command::Serve(args) => serve::serve(*args).map(|()| Verdict::Yes),
        Command::Demo(args) => demo::demo(args).map(|()| Verdict::Yes),
        Command::Certify(args) => certify::certify(args),
        Command::Recipe(args) => recipe::recipe(*args),
        Command::Partial(args) => partial::partial(args),
        Command::Merge(args) => merge::merge(args),
        Command::Plan(args) => plan::plan(*args),
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

/// Writes to standard output. A reader that stops early, as `head` does, is not an error.
fn print_text(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Whether to write colors: only to a terminal, and not if `NO_COLOR` is set (https://no-color.org).
fn colors(terminal: bool) -> bool {
    terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

//! `guarantor-lab`: the command line for the paper's experiments and datasets.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::{benchmark, compare, reproduce, simulate};

/// Reproduce the paper's experiments, and write logs from its datasets.
#[derive(Parser)]
#[command(name = "guarantor-lab", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the benchmarks, print them and write docs/benchmarks.md with its pictures.
    Benchmark(benchmark::BenchmarkArgs),
    /// Print every valid bound for one candidate on one log.
    Compare(Box<compare::CompareArgs>),
    /// Reproduce the paper's experiments and ours: tables, CSV and figures.
    Reproduce(reproduce::ReproduceArgs),
    /// Write a log of simulated decisions from one of the paper's datasets.
    Simulate(simulate::SimulateDatasetArgs),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Benchmark(args) => benchmark::benchmark(args),
        Command::Compare(args) => compare::compare(*args),
        Command::Reproduce(args) => reproduce::reproduce(args),
        Command::Simulate(args) => simulate::simulate(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("guarantor-lab: {failure}");
            ExitCode::from(2)
        }
    }
}

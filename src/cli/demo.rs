//! `guarantor demo`: upload, job, certificate, verification and gate on one screen.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use guarantor::config::Config;
use guarantor::http::Server;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::client::{Client, expect};
use super::{Failure, runtime, simulate};

/// The arguments of `guarantor demo`.
#[derive(Args)]
pub struct DemoArgs {
    /// Number of logged decisions to simulate.
    #[arg(long, default_value_t = 20_000)]
    rows: usize,
    /// Seed of the simulated world.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Store the server's data here and keep it. By default it is removed at the end.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Only write the simulated log to this file, as NDJSON.
    #[arg(long, value_name = "FILE")]
    write_log: Option<PathBuf>,
}

/// Starts a server, goes through the whole workflow with a client, and prints each step.
pub fn demo(args: DemoArgs) -> Result<(), Failure> {
    if let Some(path) = &args.write_log {
        return Ok(std::fs::write(path, simulate::demo_log(args.rows, args.seed)?)?);
    }
    let temporary = std::env::temp_dir().join(format!("guarantor-demo-{}", std::process::id()));
    let directory = args.data_dir.clone().unwrap_or_else(|| temporary.clone());
    let flags = vec![("listen", "127.0.0.1:0".to_owned()), ("data_dir", directory.display().to_string())];
    let config = Config::load(None, &flags)?;
    let runtime = runtime()?;
    let server = runtime.block_on(Server::start(config))?;
    let base = format!("http://{}", server.address()?);
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = runtime.spawn(server.run(async {
        let _ = stopped.await;
    }));
    let shown = walk_through(&base, &args);
    let _ = stop.send(());
    runtime.block_on(serving)??;
    if let Some(directory) = &args.data_dir {
        println!("\nThe data is kept. To go on with it:");
        show(&format!("guarantor serve --data-dir {}", directory.display()));
        return shown;
    }
    std::fs::remove_dir_all(&temporary)?;
    shown?;
    println!("\nThe server of this demo has stopped, and its data is removed. To take the steps yourself:");
    show("guarantor demo --write-log log.ndjson");
    show("guarantor serve");
    Ok(())
}

/// The five steps, with the curl command for each.
fn walk_through(base: &str, args: &DemoArgs) -> Result<(), Failure> {
    let client = Client::new(base, None, None)?;
    println!("A server is listening on {base}\n");

    let log = simulate::demo_log(args.rows, args.seed)?;
    let (rows, megabytes) = (args.rows, log.len() as f64 / 1e6);
    println!(
        "1. Upload the log of the deployed policy: {rows} simulated decisions ({megabytes:.1} MB) with features, action, propensities and reward."
    );
    // One policy logged all of it. Without `logging=fixed` the job would not rely on that.
    let upload = "/v1/datasets?name=demo&outcome=reward&logging=fixed";
    show(&format!(
        "curl -X POST '{base}{upload}' -H 'content-type: application/x-ndjson' --data-binary @log.ndjson"
    ));
    let dataset = expect(201, client.post(upload, "application/x-ndjson", &log)?)?;
    let health = &dataset["health"];
    println!("   dataset {}", text(&dataset["id"]));
    println!(
        "   effective sample size {:.0}, smallest propensity {}\n",
        health["effective_sample_size"].as_f64().unwrap_or_default(),
        number(&health["min_propensity"])
    );

    println!(
        "2. Submit a job: learn a policy from the log and decide whether it can replace the deployed one."
    );
    let spec = json!({"dataset_id": dataset["id"], "delta": 0.05, "metadata": {"from": "demo"}});
    show(&format!("curl -X POST '{base}/v1/jobs' -H 'content-type: application/json' -d '{spec}'"));
    let job = expect(202, client.post("/v1/jobs", "application/json", spec.to_string().as_bytes())?)?;
    let id = text(&job["id"]).to_owned();
    let job = watch(&client, &id)?;
    if job["status"] != "succeeded" {
        return Err(format!("the job is {}: {}", text(&job["status"]), text(&job["error"]["message"])).into());
    }

    println!("\n3. Get the certificate.");
    show(&format!("curl '{base}/v1/jobs/{id}/certificate'"));
    let certificate = expect(200, client.get(&format!("/v1/jobs/{id}/certificate"))?)?;
    println!("   {}", text(&certificate["statement"]));
    let units = &certificate["user_units"];
    println!("   guaranteed improvement   {}", number(&units["guaranteed_improvement"]));
    println!("   guaranteed outcome       {}", number(&units["guaranteed_outcome"]));
    println!("   deployed policy outcome  {}", number(&units["baseline_outcome"]));
    println!("   digest                   {}", text(&certificate["digest"]));

    println!("\n4. Verify the certificate: the server recomputes it from the log.");
    show(&format!(
        "curl '{base}/v1/jobs/{id}/certificate' | curl -X POST '{base}/v1/certificates/verify' -H 'content-type: application/json' -d @-"
    ));
    let body = certificate.to_string();
    let checked = expect(200, client.post("/v1/certificates/verify", "application/json", body.as_bytes())?)?;
    println!("   valid: {}", checked["valid"]);

    println!("\n5. Call the gate, as a rollout tool would.");
    show(&format!("curl -i '{base}/v1/jobs/{id}/gate'"));
    let (status, gate) = client.get(&format!("/v1/jobs/{id}/gate"))?;
    println!("   {status}: ok {}, decision {}", gate["ok"], text(&gate["decision"]));
    Ok(())
}

/// Waits for the job to end, with a progress bar if the output is a terminal.
fn watch(client: &Client, id: &str) -> Result<Value, Failure> {
    let mut out = std::io::stdout();
    let draws = out.is_terminal();
    show(&format!("curl '…/v1/jobs/{id}?wait=60'"));
    loop {
        let job = expect(200, client.get(&format!("/v1/jobs/{id}?wait={}", u8::from(!draws) * 60))?)?;
        let fraction = job["progress"]["fraction"].as_f64().unwrap_or(0.0);
        let finished = !matches!(text(&job["status"]), "queued" | "running");
        if draws {
            let done = if finished { 1.0 } else { fraction };
            let filled = (done * 40.0) as usize;
            let phase = job["progress"]["phase"].as_str().unwrap_or("queued");
            print!(
                "\r   [{}{}] {:>3.0}% {phase:<12}",
                "#".repeat(filled),
                "·".repeat(40 - filled.min(40)),
                done * 100.0
            );
            out.flush()?;
        }
        if finished {
            println!(
                "{}   {} after {:.1} s",
                if draws { "\n" } else { "" },
                text(&job["status"]),
                job["progress"]["elapsed_seconds"].as_f64().unwrap_or_default()
            );
            return Ok(job);
        }
        if draws {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
}

fn show(command: &str) {
    println!("   $ {command}");
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

fn number(value: &Value) -> String {
    value.as_f64().map_or("-".into(), |v| format!("{v:.4}"))
}

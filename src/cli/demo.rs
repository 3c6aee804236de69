//! `guarantor demo`: the whole journey on one screen.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use guarantor::config::Config;
use guarantor::http::Server;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::client::{Client, expect};
use super::{Failure, runtime, simulate};

#[derive(Args)]
pub struct DemoArgs {
    /// Logged decisions to simulate.
    #[arg(long, default_value_t = 20_000)]
    rows: usize,
    /// Another seed makes another world.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep the server's data here instead of in a temporary directory that is removed.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Only write the simulated log to this file.
    #[arg(long, value_name = "FILE")]
    write_log: Option<PathBuf>,
}

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
    let shown = journey(&base, &args);
    let _ = stop.send(());
    runtime.block_on(serving)??;
    if args.data_dir.is_none() {
        std::fs::remove_dir_all(&temporary)?;
    }
    shown
}

fn journey(base: &str, args: &DemoArgs) -> Result<(), Failure> {
    let client = Client::new(base, None);
    println!("A server listens on {base}\n");

    let log = simulate::demo_log(args.rows, args.seed)?;
    let (rows, megabytes) = (args.rows, log.len() as f64 / 1e6);
    println!(
        "1. The deployed policy has logged {rows} decisions ({megabytes:.1} MB): features, action, propensities, reward."
    );
    let upload = "/v1/datasets?name=demo&outcome=reward";
    say(&format!(
        "curl -X POST '{base}{upload}' -H 'content-type: application/x-ndjson' --data-binary @log.ndjson"
    ));
    let dataset = expect(201, client.post(upload, "application/x-ndjson", &log)?)?;
    let health = &dataset["health"];
    println!("   dataset {}", text(&dataset["id"]));
    println!(
        "   effective sample size {}, smallest propensity {}\n",
        number(&health["effective_sample_size"]),
        number(&health["min_propensity"])
    );

    println!("2. Learn a policy from the log and decide whether it may replace the deployed one.");
    let spec = json!({"dataset_id": dataset["id"], "delta": 0.05, "metadata": {"from": "demo"}});
    say(&format!("curl -X POST '{base}/v1/jobs' -H 'content-type: application/json' -d '{spec}'"));
    let job = expect(202, client.post("/v1/jobs", "application/json", spec.to_string().as_bytes())?)?;
    let id = text(&job["id"]).to_owned();
    let job = watch(&client, &id)?;
    if job["status"] != "succeeded" {
        return Err(format!("the job {}: {}", text(&job["status"]), text(&job["error"]["message"])).into());
    }

    println!("\n3. The certificate.");
    say(&format!("curl '{base}/v1/jobs/{id}/certificate'"));
    let certificate = expect(200, client.get(&format!("/v1/jobs/{id}/certificate"))?)?;
    println!("   {}", text(&certificate["statement"]));
    let units = &certificate["user_units"];
    println!("   guaranteed improvement   {}", number(&units["guaranteed_improvement"]));
    println!("   guaranteed outcome       {}", number(&units["guaranteed_outcome"]));
    println!("   deployed policy's        {}", number(&units["baseline_outcome"]));
    println!("   digest                   {}", text(&certificate["digest"]));

    println!("\n4. Anyone can have it computed again.");
    say(&format!(
        "curl '{base}/v1/jobs/{id}/certificate' | curl -X POST '{base}/v1/certificates/verify' -H 'content-type: application/json' -d @-"
    ));
    let body = certificate.to_string();
    let checked = expect(200, client.post("/v1/certificates/verify", "application/json", body.as_bytes())?)?;
    println!("   valid: {}", checked["valid"]);

    println!("\n5. The gate that a rollout tool asks.");
    say(&format!("curl -i '{base}/v1/jobs/{id}/gate'"));
    let (status, gate) = client.get(&format!("/v1/jobs/{id}/gate"))?;
    println!("   {status}: ok {}, decision {}", gate["ok"], text(&gate["decision"]));
    Ok(())
}

/// Waits for the job's end, with a progress bar where there is a terminal to draw on.
fn watch(client: &Client, id: &str) -> Result<Value, Failure> {
    let mut out = std::io::stdout();
    let draws = out.is_terminal();
    say(&format!("curl '…/v1/jobs/{id}?wait=60'"));
    loop {
        let job = expect(200, client.get(&format!("/v1/jobs/{id}?wait={}", u8::from(!draws) * 60))?)?;
        let fraction = job["progress"]["fraction"].as_f64().unwrap_or(0.0);
        let finished = !matches!(text(&job["status"]), "queued" | "running");
        if draws {
            let done = if finished { 1.0 } else { fraction };
            let filled = (done * 40.0) as usize;
            let phase = job["progress"]["phase"].as_str().unwrap_or("queued");
            print!(
                "\r   [{}{}] {:>3.0} % {phase:<12}",
                "#".repeat(filled),
                "·".repeat(40 - filled.min(40)),
                done * 100.0
            );
            out.flush()?;
        }
        if finished {
            println!(
                "{}   {} after {} s",
                if draws { "\n" } else { "" },
                text(&job["status"]),
                number(&job["progress"]["elapsed_seconds"])
            );
            return Ok(job);
        }
        if draws {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
}

fn say(command: &str) {
    println!("   $ {command}");
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

fn number(value: &Value) -> String {
    value.as_f64().map_or("-".into(), |v| format!("{v:.4}"))
}

//! The database restarts, crashes and fails over while jobs run.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::bucket::Bucket;
use crate::common::{Client, Server};
use crate::crash::check_rows;
use crate::postgres::{self, Cluster};
use crate::site::Site;
use crate::workload::{Fleet, Worker, check};

/// Lets clients work on two servers while `disturb` does something to the database, and checks what is left.
fn disturbed(site: &Site, disturb: impl FnOnce(&dyn Fn())) {
    let servers = [site.server(&[]), site.server(&[])];
    // A job that is in its middle throughout.
    let client = servers[0].client();
    let dataset = client.dataset(300);
    let endless = client.submit_endless(&dataset);
    let fleet = Fleet(RwLock::new(servers.iter().map(|server| server.base.clone()).collect()));
    let mut workers: Vec<Worker> = (0..2).map(|number| Worker::new(2, number)).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for worker in &mut workers {
            let (fleet, stop) = (&fleet, &stop);
            scope.spawn(move || worker.work(fleet, stop));
        }
        let pause = || std::thread::sleep(Duration::from_millis(700));
        pause();
        disturb(&pause);
        pause();
        stop.store(true, Ordering::SeqCst);
    });
    let job = client.get(&format!("/v1/jobs/{endless}")).expect(200);
    assert!(job["status"] == "running" || job["status"] == "queued", "{job}");
    // It still reports, here or on the other server.
    let seen = client.follow(&endless, &[], |_| true).len();
    assert_eq!(seen, 1);
    let revision =
        || client.get(&format!("/v1/jobs/{endless}")).expect(200)["progress"]["elapsed_seconds"].clone();
    let before = revision();
    crate::common::eventually(|| revision() != before, &true);
    client.post(&format!("/v1/jobs/{endless}/cancel"), &serde_json::Value::Null);
    assert_eq!(client.finish(&endless)["status"], "cancelled");
    // The workers do not know about this job and its dataset.
    workers[0].jobs.insert(endless, true);
    workers[0].datasets.insert(dataset, 300);
    let clients: Vec<Client> = servers.iter().map(Server::client).collect();
    let statuses = check(&clients, &workers);
    let repeated: u64 = workers.iter().map(|worker| worker.repeated).sum();
    println!("jobs {statuses}, {repeated} requests repeated");
    check_rows(site);
}

#[test]
fn restarts_of_the_database_lose_nothing() {
    if postgres::is_left_out() {
        return;
    }
    let cluster = Cluster::start();
    let site = Site::on(&cluster);
    disturbed(&site, |pause| {
        for mode in ["fast", "immediate"] {
            cluster.stop(mode);
            pause();
            cluster.start_again();
            pause();
        }
    });
}

/// A standby takes over. It has every commit that was acknowledged, because the primary waits for it.
#[test]
fn a_failover_of_the_database_loses_nothing() {
    if postgres::is_left_out() {
        return;
    }
    let primary = Cluster::start();
    let standby = primary.standby();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let url = runtime.block_on(primary.database());
    // The address that moves from one to the other: a folder with a link to the socket.
    let address = tempfile::tempdir().unwrap();
    let link = address.path().join(".s.PGSQL.5432");
    std::os::unix::fs::symlink(primary.directory().join(".s.PGSQL.5432"), &link).unwrap();
    let (from, to) = (primary.directory().to_str().unwrap(), address.path().to_str().unwrap());
    let site = Site::at(url.replace(from, to), Bucket::start());
    site.execute("ALTER SYSTEM SET synchronous_standby_names = '*'");
    site.execute("ALTER SYSTEM SET synchronous_commit = 'remote_write'");
    site.execute("SELECT pg_reload_conf()");
    disturbed(&site, |pause| {
        primary.stop("immediate");
        pause();
        // It waits for nobody as a primary.
        standby.promote();
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(standby.directory().join(".s.PGSQL.5432"), &link).unwrap();
    });
}

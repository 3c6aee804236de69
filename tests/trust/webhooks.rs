//! Events survive the death of the server: between the end of a job and its delivery, and during a delivery.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::common::receiver::{Receiver, Reply};
use crate::common::{Server, eventually, id_of};

/// A server with a webhook at this receiver.
fn server_for(receiver: &Receiver) -> (Server, String) {
    let server = Server::start_with(&[("GUARANTOR_WEBHOOK_ALLOW", &receiver.url())]);
    let created = server.client().post("/v1/webhooks", &json!({"url": receiver.url()})).expect(201);
    (server, id_of(&created))
}

#[test]
fn a_kill_between_the_end_of_a_job_and_its_delivery_loses_no_event() {
    let alive = Arc::new(AtomicBool::new(false));
    let answers = alive.clone();
    let receiver = Receiver::answering(move |_, _| match answers.load(Ordering::SeqCst) {
        true => Reply::Status(200, ""),
        false => Reply::Close,
    });
    let (mut server, webhook) = server_for(&receiver);
    let client = server.client();
    let job = client.submit(json!({"dataset_id": client.dataset(200)}));
    let done = client.finish(&job);
    // The first attempt has failed, and the next one is due in some seconds.
    let waits = || client.get(&format!("/v1/webhooks/{webhook}/deliveries")).expect(200)["data"][0].clone();
    eventually(|| waits()["attempts"].clone(), &json!(1));
    server.kill();
    alive.store(true, Ordering::SeqCst);
    server.restart();
    let received = receiver.wait_for(2);
    assert_eq!(received[1].event_id(), format!("{job}-succeeded"));
    assert_eq!((received[1].event_id(), &received[1].body), (received[0].event_id(), &received[0].body));
    assert_eq!(received[1].json()["data"]["decision"], done["result"]["decision"]);
    let client = server.client();
    let path = format!("/v1/webhooks/{webhook}/deliveries");
    eventually(|| client.get(&path).expect(200)["data"][0]["status"].clone(), &json!("delivered"));
    assert_eq!(client.get(&path).expect(200)["data"].as_array().unwrap().len(), 1);
}

#[test]
fn a_kill_during_a_delivery_repeats_it_with_the_same_id() {
    let receiver = Receiver::answering(|number, _| match number {
        0 => Reply::Hold,
        _ => Reply::Status(200, ""),
    });
    let (mut server, webhook) = server_for(&receiver);
    let client = server.client();
    let job = client.submit(json!({"dataset_id": client.dataset(200)}));
    client.finish(&job);
    // The receiver has the event, and the server does not know it.
    receiver.wait_for(1);
    server.kill();
    server.restart();
    let received = receiver.wait_for(2);
    assert_eq!((received[1].event_id(), &received[1].body), (received[0].event_id(), &received[0].body));
    let client = server.client();
    let path = format!("/v1/webhooks/{webhook}/deliveries");
    eventually(|| client.get(&path).expect(200)["data"][0]["status"].clone(), &json!("delivered"));
    // Whatever follows, that event is not sent again.
    client.send("POST", &format!("/v1/webhooks/{webhook}/test"), &[], None).expect(202);
    let received = receiver.wait_for(3);
    assert_eq!(received[2].json()["type"], "ping");
    // A graceful end and another start do not send it either.
    assert!(server.terminate());
    server.restart();
    let client = server.client();
    client.send("POST", &format!("/v1/webhooks/{webhook}/test"), &[], None).expect(202);
    assert_eq!(receiver.wait_for(4)[3].json()["type"], "ping");
}

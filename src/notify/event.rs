//! The body of a delivery: a CloudEvent 1.0 as JSON. It is the same for every attempt.

use serde::Serialize;
use serde_json::{Value, json};

use crate::store::{Delivery, EventKind, Timestamp};

/// The content type of the body.
pub const CONTENT_TYPE: &str = "application/cloudevents+json; charset=utf-8";

/// The source of events of a server whose URL is not known.
const SOURCE: &str = "urn:guarantor";

#[derive(Serialize)]
struct CloudEvent<'a> {
    specversion: &'static str,
    id: &'a str,
    source: &'a str,
    #[serde(rename = "type")]
    kind: EventKind,
    time: Timestamp,
    subject: &'a str,
    datacontenttype: &'static str,
    data: Value,
}

/// The body of a delivery. Links begin with `public_url`, or are paths if that is empty.
pub fn body(delivery: &Delivery, public_url: &str) -> Vec<u8> {
    let mut data = delivery.data.clone();
    if let Some(members) = data.as_object_mut() {
        members.insert("links".into(), links(delivery, public_url));
    }
    let event = CloudEvent {
        specversion: "1.0",
        id: &delivery.event_id,
        source: if public_url.is_empty() { SOURCE } else { public_url },
        kind: delivery.kind,
        time: delivery.created_at,
        subject: &delivery.subject,
        datacontenttype: "application/json",
        data,
    };
    serde_json::to_vec(&event).unwrap_or_default()
}

fn links(delivery: &Delivery, public_url: &str) -> Value {
    let base = public_url.trim_end_matches('/');
    let subject = format!("{base}/v1/{}", delivery.subject);
    match delivery.kind {
        EventKind::Ping => json!({ "webhook": subject }),
        EventKind::JobSucceeded => json!({
            "job": subject,
            "certificate": format!("{subject}/certificate"),
            "gate": format!("{subject}/gate"),
        }),
        EventKind::JobFailed | EventKind::JobCancelled => json!({ "job": subject }),
    }
}

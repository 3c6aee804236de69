//! A small client of the service, for the commands that call one.

use serde_json::Value;
use ureq::http::Response;
use ureq::{Agent, Body};

use super::Failure;

/// A client of one server.
pub struct Client {
    agent: Agent,
    base: String,
    key: Option<String>,
}

impl Client {
    /// A client of the server at `base`, with an API key if it needs one.
    pub fn new(base: &str, key: Option<String>) -> Client {
        let config = Agent::config_builder().http_status_as_error(false).build();
        Client { agent: config.new_agent(), base: base.trim_end_matches('/').into(), key }
    }

    /// Sends a GET request and returns the status and the body.
    pub fn get(&self, path: &str) -> Result<(u16, Value), Failure> {
        let mut request = self.agent.get(format!("{}{path}", self.base));
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        read(request.call()?)
    }

    /// Sends a POST request and returns the status and the body.
    pub fn post(&self, path: &str, content_type: &str, body: &[u8]) -> Result<(u16, Value), Failure> {
        let mut request =
            self.agent.post(format!("{}{path}", self.base)).header("content-type", content_type);
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        read(request.send(body)?)
    }
}

fn read(mut response: Response<Body>) -> Result<(u16, Value), Failure> {
    let status = response.status().as_u16();
    let text = response.body_mut().with_config().limit(u64::MAX).read_to_string()?;
    let value = serde_json::from_str(&text)
        .map_err(|_| format!("the response (status {status}) is not JSON; is this a Guarantor server?"))?;
    Ok((status, value))
}

/// Returns the body if the response has the `wanted` status.
///
/// # Errors
/// If it has another status, with the server's explanation.
pub fn expect(wanted: u16, (status, answer): (u16, Value)) -> Result<Value, Failure> {
    if status == wanted {
        return Ok(answer);
    }
    let detail = answer["detail"].as_str().unwrap_or("no detail");
    Err(format!("the server answered {status}: {detail}").into())
}

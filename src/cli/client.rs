//! A small client of the service, for the commands that talk to one.

use serde_json::Value;
use ureq::http::Response;
use ureq::{Agent, Body};

use super::Failure;

pub struct Client {
    agent: Agent,
    base: String,
    key: Option<String>,
}

impl Client {
    pub fn new(base: &str, key: Option<String>) -> Client {
        let config = Agent::config_builder().http_status_as_error(false).build();
        Client { agent: config.new_agent(), base: base.trim_end_matches('/').into(), key }
    }

    pub fn get(&self, path: &str) -> Result<(u16, Value), Failure> {
        let mut request = self.agent.get(format!("{}{path}", self.base));
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        read(request.call()?)
    }

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
        .map_err(|_| format!("status {status} and no JSON: is this a Guarantor server?"))?;
    Ok((status, value))
}

/// The answer where it has the status that was hoped for, else its own words.
pub fn expect(wanted: u16, (status, answer): (u16, Value)) -> Result<Value, Failure> {
    if status == wanted {
        return Ok(answer);
    }
    let detail = answer["detail"].as_str().unwrap_or("no detail");
    Err(format!("the server answered {status}: {detail}").into())
}

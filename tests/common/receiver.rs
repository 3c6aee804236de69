//! A receiver of webhooks: a small HTTP server in this process that remembers what it got.

#![allow(dead_code)] // no test binary uses all of it

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::Value;

/// Far longer than any test waits.
const LONG: Duration = Duration::from_secs(60);

/// A request that arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Received {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no header {name}: {:?}", self.headers))
    }

    pub fn event_id(&self) -> &str {
        self.header("webhook-id")
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// What to do with a request.
pub enum Reply {
    /// Answer with this status and these further lines of the head.
    Status(u16, &'static str),
    /// Close the connection without an answer.
    Close,
    /// Answer with something else than HTTP.
    Garbage,
    /// Answer 200 with a body that never ends.
    Unending,
    /// Never answer. The connection stays open until the sender closes it.
    Hold,
}

#[derive(Default)]
struct State {
    received: Vec<Received>,
}

type Shared = Arc<(Mutex<State>, Condvar)>;

/// A receiver on a port of its own. It listens until the test ends.
pub struct Receiver {
    pub address: SocketAddr,
    shared: Shared,
}

impl Receiver {
    /// Answers 204 to everything.
    pub fn start() -> Receiver {
        Receiver::answering(|_, _| Reply::Status(204, ""))
    }

    /// Answers with what the function returns for the number of a request, from 0, and the request.
    pub fn answering(answer: impl Fn(usize, &Received) -> Reply + Send + Sync + 'static) -> Receiver {
        Receiver::on("127.0.0.1:0".parse().unwrap(), answer)
    }

    /// The same on a given address.
    pub fn on(
        address: SocketAddr,
        answer: impl Fn(usize, &Received) -> Reply + Send + Sync + 'static,
    ) -> Receiver {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Shared::default();
        let (state, answer) = (shared.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (state, answer) = (state.clone(), answer.clone());
                std::thread::spawn(move || {
                    // A sender that was killed closes its connection.
                    let _ = serve(stream, &state, &*answer);
                });
            }
        });
        Receiver { address, shared }
    }

    /// An address that nobody listens on.
    pub fn nobody() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// What has arrived so far.
    pub fn received(&self) -> Vec<Received> {
        self.shared.0.lock().unwrap().received.clone()
    }

    /// Waits until `n` requests have arrived, and returns all.
    #[track_caller]
    pub fn wait_for(&self, n: usize) -> Vec<Received> {
        let (state, arrived) = &*self.shared;
        let state = state.lock().unwrap();
        let (state, late) =
            arrived.wait_timeout_while(state, LONG, |state| state.received.len() < n).unwrap();
        assert!(!late.timed_out(), "{} of {n} requests have arrived", state.received.len());
        state.received.clone()
    }
}

fn serve(
    stream: TcpStream,
    shared: &Shared,
    answer: &dyn Fn(usize, &Received) -> Reply,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let received = read(&mut reader)?;
    let number = {
        let mut state = shared.0.lock().unwrap();
        state.received.push(received.clone());
        shared.1.notify_all();
        state.received.len() - 1
    };
    write_reply(stream, answer(number, &received))
}

/// Reads a request with a body of a known length. A sender that is killed before the empty line that ends the head
/// has sent no request, however much of the head has arrived.
pub fn read(reader: &mut impl BufRead) -> std::io::Result<Received> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        if !line.ends_with('\n') {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.insert(name.to_ascii_lowercase(), value.to_owned()),
            None => break,
        };
    }
    let length = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Received { path, headers, body: String::from_utf8(body).unwrap() })
}

fn write_reply(mut stream: TcpStream, reply: Reply) -> std::io::Result<()> {
    match reply {
        Reply::Status(status, more) => {
            write!(stream, "HTTP/1.1 {status} x\r\ncontent-length: 0\r\n{more}connection: close\r\n\r\n")
        }
        Reply::Close => Ok(()),
        Reply::Garbage => stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n"),
        Reply::Unending => {
            write!(stream, "HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n")?;
            stream.read(&mut [0]).map(drop)
        }
        Reply::Hold => stream.read(&mut [0]).map(drop),
    }
}

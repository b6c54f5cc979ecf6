//! What the cases of the service share: the program as a server, and a client that sends what it is told to.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Child;

use crate::kit::{program, soon};

/// Tokens as they are to be.
pub(super) const READER: &str = "reader-0123456789abcdef0123456789abcdef";
pub(super) const OPERATOR: &str = "operator-fedcba9876543210fedcba9876543210";

/// The service, for as long as its case.
pub(super) struct Serving {
    pub(super) child: Child,
    pub(super) address: String,
    /// What it said on standard error so far.
    pub(super) said: Arc<Mutex<String>>,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Answer {
    fn of(bytes: &[u8]) -> Answer {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    /// A field of its head.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Its JSON, where it must have this status.
    #[track_caller]
    pub(super) fn is(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:#?}");
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// It must be a problem of this status and kind.
    #[track_caller]
    pub(super) fn fails(&self, status: u16, kind: &str) -> Value {
        let problem = self.is(status);
        assert_eq!(self.field("content-type"), Some("application/problem+json"), "{self:#?}");
        assert_eq!(problem["type"], format!("urn:delayq:problem:{kind}"), "{self:#?}");
        assert_eq!(problem["status"], status);
        problem
    }
}

impl Serving {
    /// The service with a token of each role.
    pub(super) async fn start(url: &str, args: &[&str]) -> Serving {
        let tokens = [("DELAYQ_READER_TOKENS", READER), ("DELAYQ_OPERATOR_TOKENS", OPERATOR)];
        Serving::start_with(url, args, &tokens).await
    }

    pub(super) async fn start_with(url: &str, args: &[&str], variables: &[(&str, &str)]) -> Serving {
        let mut command = program(url, &[&["serve", "--listen", "127.0.0.1:0"], args].concat());
        let mut child = command.envs(variables.iter().copied()).stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
        let heard = said.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = errors.next_line().await {
                let mut said = heard.lock().unwrap();
                said.push_str(&line);
                said.push('\n');
            }
        });
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = soon(lines.next_line()).await.unwrap();
        let line = line.unwrap_or_else(|| panic!("it doesn't listen: {}", said.lock().unwrap()));
        let address = line.strip_prefix("listening on http://").unwrap_or_else(|| panic!("{line}")).to_owned();
        Serving { child, address, said }
    }

    pub(super) async fn connect(&self) -> TcpStream {
        soon(TcpStream::connect(&self.address)).await.unwrap()
    }

    /// Sends bytes as they are, and takes all that comes until the connection's end.
    pub(super) async fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect().await;
        // What is refused early isn't read to its end.
        let _ = soon(stream.write_all(bytes)).await;
        rest(&mut stream).await
    }

    /// A request with these fields, each in a line of its own.
    pub(super) async fn send(&self, method: &str, path: &str, fields: &[&str], body: &str) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !fields.iter().any(|field| field.starts_with("host:")) {
            head += &format!("host: {}\r\n", self.address);
        }
        if !body.is_empty() {
            head += &format!("content-length: {}\r\n", body.len());
        }
        for field in fields {
            head += &format!("{field}\r\n");
        }
        Answer::of(&self.raw(format!("{head}\r\n{body}").as_bytes()).await)
    }

    /// A request with a token, and with JSON where there is a body.
    pub(super) async fn call(&self, method: &str, path: &str, token: Option<&str>, body: &str) -> Answer {
        let mut fields = Vec::new();
        let authorization = token.map(|token| format!("authorization: Bearer {token}"));
        fields.extend(authorization.as_deref());
        if !body.is_empty() {
            fields.push("content-type: application/json");
        }
        self.send(method, path, &fields, body).await
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, Some(READER), "").await
    }

    pub(super) async fn post(&self, path: &str, body: &str) -> Answer {
        self.call("POST", path, Some(OPERATOR), body).await
    }

    pub(super) async fn delete(&self, path: &str) -> Answer {
        self.call("DELETE", path, Some(OPERATOR), "").await
    }

    /// Tells it to end.
    pub(super) fn terminate(&self) {
        let pid = self.child.id().unwrap().to_string();
        assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    }

    /// Waits for its end, and answers its exit code.
    pub(super) async fn ended(&mut self) -> Option<i32> {
        soon(self.child.wait()).await.unwrap().code()
    }
}

/// All that comes until the connection's end. A reset is an end too.
pub(super) async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = soon(stream.read_to_end(&mut bytes)).await;
    bytes
}

/// The answer that comes on an open connection before its end.
pub(super) async fn answer(stream: &mut TcpStream) -> Answer {
    let bytes = rest(stream).await;
    Answer::of(&bytes)
}

/// How long is waited for what must not come.
pub(super) const PATIENCE: Duration = Duration::from_millis(300);

//! What a server answered, taken apart: RESP2 as values.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::write_command;

/// An answer that is no error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A status or a bulk: what isn't UTF-8 in it is replaced.
    Text(String),
    Number(i64),
    List(Vec<Reply>),
    Nothing,
}

/// Sends one command over a connection of its own. What the server answers as an error is one.
pub(crate) fn ask(port: u16, password: Option<&str>, patience: Duration, parts: &[&str]) -> io::Result<Reply> {
    let told = |error: io::Error| {
        let command = parts.iter().take(4).copied().collect::<Vec<_>>().join(" ");
        io::Error::new(error.kind(), format!("{command} at port {port}: {error}"))
    };
    let answer = exchange(port, password, patience, parts).map_err(told)?;
    Reply::read(&mut answer.as_slice()).map_err(told)
}

/// Sends one command over a connection of its own, and gives the bytes of its answer, which may be an error.
pub(crate) fn exchange(port: u16, password: Option<&str>, patience: Duration, parts: &[&str]) -> io::Result<Vec<u8>> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(patience))?;
    if let Some(password) = password {
        let answer = one_answer(&mut stream, &["AUTH", password])?;
        Reply::read(&mut answer.as_slice())?;
    }
    one_answer(&mut stream, parts)
}

/// Where an answer ends is read from the answer: a Sentinel knows no QUIT that would close the connection behind it.
fn one_answer(stream: &mut TcpStream, parts: &[&str]) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    write_command(&mut request, parts)?;
    stream.write_all(&request)?;
    let mut answer = Vec::new();
    let mut chunk = [0; 64 * 1024];
    loop {
        let length = stream.read(&mut chunk)?;
        answer.extend_from_slice(&chunk[..length]);
        let incomplete =
            Reply::read(&mut answer.as_slice()).is_err_and(|error| error.kind() == io::ErrorKind::UnexpectedEof);
        match (incomplete, length) {
            (false, _) => return Ok(answer),
            (true, 0) => return Err(cut()),
            (true, _) => {}
        }
    }
}

impl Reply {
    /// Takes one answer off the front.
    fn read(bytes: &mut &[u8]) -> io::Result<Reply> {
        let line = line(bytes)?;
        let Some((kind, rest)) = line.split_at_checked(1) else { return Err(garbled(&line)) };
        let length = || rest.parse::<i64>().map_err(|_| garbled(&line));
        match kind {
            "+" => Ok(Reply::Text(rest.to_owned())),
            "-" => Err(io::Error::other(rest.to_owned())),
            ":" => Ok(Reply::Number(length()?)),
            "$" => {
                let Ok(length) = usize::try_from(length()?) else { return Ok(Reply::Nothing) };
                let Some((text, after)) = bytes.split_at_checked(length) else { return Err(cut()) };
                *bytes = after.strip_prefix(b"\r\n").ok_or_else(cut)?;
                Ok(Reply::Text(String::from_utf8_lossy(text).into_owned()))
            }
            "*" => {
                let Ok(length) = usize::try_from(length()?) else { return Ok(Reply::Nothing) };
                (0..length).map(|_| Reply::read(bytes)).collect::<io::Result<_>>().map(Reply::List)
            }
            _ => Err(garbled(&line)),
        }
    }

    /// The text, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Reply::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The elements: those of anything but a list are none.
    pub(crate) fn list(&self) -> &[Reply] {
        match self {
            Reply::List(list) => list,
            _ => &[],
        }
    }

    /// The texts among its elements.
    pub(crate) fn texts(&self) -> Vec<&str> {
        self.list().iter().filter_map(Reply::text).collect()
    }

    /// A flat list of names and values.
    pub(crate) fn map(&self) -> HashMap<&str, &str> {
        self.list().chunks_exact(2).filter_map(|pair| Some((pair[0].text()?, pair[1].text()?))).collect()
    }
}

/// Takes a line off the front, and its end with it.
fn line(bytes: &mut &[u8]) -> io::Result<String> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n").ok_or_else(cut)?;
    let line = String::from_utf8_lossy(&bytes[..end]).into_owned();
    *bytes = &bytes[end + 2..];
    Ok(line)
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the answer ends too early: did the server die?")
}

fn garbled(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not an answer in RESP2: {line:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_apart() {
        let read = |mut bytes: &[u8]| Reply::read(&mut bytes).map_err(|error| error.to_string());
        let text = |text: &str| Reply::Text(text.to_owned());
        assert_eq!(read(b"+OK\r\n+more\r\n"), Ok(text("OK")));
        assert_eq!(read(b":-7\r\n"), Ok(Reply::Number(-7)));
        assert_eq!(read(b"$4\r\na\r\nb\r\n"), Ok(text("a\r\nb")));
        assert_eq!(read(b"$1\r\n\xff\r\n"), Ok(text("\u{fffd}")));
        assert_eq!(read(b"$-1\r\n"), Ok(Reply::Nothing));
        let nested = read(b"*3\r\n$1\r\na\r\n*1\r\n:1\r\n+b\r\n");
        assert_eq!(nested, Ok(Reply::List(vec![text("a"), Reply::List(vec![Reply::Number(1)]), text("b")])));
        assert_eq!(read(b"-ERR no\r\n"), Err("ERR no".to_owned()));
        for wrong in [&b""[..], b"+OK", b"$4\r\nab\r\n", b"*2\r\n:1\r\n"] {
            assert!(read(wrong).is_err_and(|text| text.contains("too early")), "{wrong:?}");
        }
        for wrong in [&b"\r\n"[..], b"?1\r\n", b":x\r\n", b"$x\r\n"] {
            assert!(read(wrong).is_err_and(|text| text.contains("RESP2")), "{wrong:?}");
        }
    }
}

//! A small HTTP server of one page, on one thread.
//!
//! Invariants:
//!
//! - No client holds another one up: the thread waits for all of them at once.
//! - A client has a limited time for everything. There are [`CLIENTS_MAX`] of them at most: one more takes
//!   the place of the one that has been connected longest.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, Read, Result, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Longest time of a client, usually.
pub(super) const TIME_MAX: Duration = Duration::from_secs(5);
/// Most clients at once.
const CLIENTS_MAX: usize = 32;
/// How long a listener that gives an error is not polled: no file descriptors are left, say.
const PAUSE: Duration = Duration::from_millis(50);

struct Client {
    stream: TcpStream,
    until: Instant,
    head: Vec<u8>,
    /// Nothing: the head is not whole yet.
    reply: Vec<u8>,
    sent: usize,
}

/// Whether a client needs more time.
enum Next {
    Waits,
    IsOver,
}

impl Client {
    fn new(stream: TcpStream, time_max: Duration) -> Result<Self> {
        stream.set_nonblocking(true)?;
        let until = Instant::now() + time_max;
        Ok(Self { stream, until, head: Vec::new(), reply: Vec::new(), sent: 0 })
    }

    fn wanted(&self) -> PollFlags {
        if self.reply.is_empty() { PollFlags::IN } else { PollFlags::OUT }
    }

    /// Receives and sends as far as it can without waiting.
    fn go_on(&mut self, page: &dyn Fn(&str) -> Option<String>) -> Result<Next> {
        while self.reply.is_empty() {
            let mut buffer = [0; 4096];
            let count = match self.stream.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Next::Waits),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                received => received?,
            };
            self.head.extend_from_slice(&buffer[..count]);
            match count {
                0 => return Ok(Next::IsOver),
                _ if is_whole(&self.head) || self.head.len() > HEAD_BYTES_MAX => {
                    self.reply = reply(&self.head, page)
                }
                _ => {}
            }
        }
        while self.sent < self.reply.len() {
            match self.stream.write(&self.reply[self.sent..]) {
                Ok(0) => return Ok(Next::IsOver),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Next::Waits),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                sent => self.sent += sent?,
            }
        }
        self.stream.shutdown(Shutdown::Write)?;
        Ok(Next::IsOver)
    }
}

/// Whether the empty line is there that ends a head.
fn is_whole(head: &[u8]) -> bool {
    head.windows(4).any(|end| end == b"\r\n\r\n") || head.windows(2).any(|end| end == b"\n\n")
}

fn reply(head: &[u8], page: &dyn Fn(&str) -> Option<String>) -> Vec<u8> {
    let head = String::from_utf8_lossy(head);
    let path = head.strip_prefix("GET ").and_then(|rest| rest.split([' ', '\r', '\n']).next());
    let (status, text) = match path.and_then(page) {
        Some(text) => ("200 OK", text),
        None => ("404 Not Found", "GET /metrics\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        text.len()
    );
    [head.into_bytes(), text.into_bytes()].concat()
}

/// Waits until the listener or a client is ready, or the time of a client is up. Returns which are.
fn wait(listener: &TcpListener, clients: &[Client]) -> Vec<bool> {
    let first = clients.iter().map(|client| client.until.saturating_duration_since(Instant::now())).min();
    let time_max = first.map(|time| Timespec {
        tv_sec: time.as_secs() as i64,
        // So that the time is up when the wait is over.
        tv_nsec: (i64::from(time.subsec_nanos()) + 1_000_000).min(999_999_999),
    });
    let mut sources = vec![PollFd::new(listener, PollFlags::IN)];
    sources.extend(clients.iter().map(|client| PollFd::new(&client.stream, client.wanted())));
    // Interrupted: nothing is ready.
    let _ = poll(&mut sources, time_max.as_ref());
    sources.iter().map(|source| !source.revents().is_empty()).collect()
}

/// Answers requests for the pages that `page` has, for ever. A client has `time_max`.
pub(super) fn serve(listener: &TcpListener, time_max: Duration, page: &dyn Fn(&str) -> Option<String>) {
    let mut clients: Vec<Client> = Vec::new();
    loop {
        let ready = wait(listener, &clients);
        let mut of_clients = ready[1..].iter();
        // A client that is gone misses nothing.
        clients.retain_mut(|client| {
            let is_ready = of_clients.next().is_some_and(|ready| *ready);
            let is_over = is_ready && !matches!(client.go_on(page), Ok(Next::Waits));
            !is_over && Instant::now() < client.until
        });
        if !ready[0] {
            continue;
        }
        match listener.accept() {
            Ok((stream, _)) => {
                if clients.len() == CLIENTS_MAX {
                    clients.remove(0);
                }
                clients.extend(Client::new(stream, time_max));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    const LONG: Duration = Duration::from_secs(3600);

    /// The server ends with the test's process.
    fn start(time_max: Duration) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let page = |path: &str| (path == "/x").then(|| "y".repeat(1 << 20));
        std::thread::spawn(move || serve(&listener, time_max, &page));
        address
    }

    /// A connection on which a test does not wait for ever.
    fn connect(address: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = connect(address);
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn no_client_holds_another_one_up() {
        let address = start(LONG);
        // Idle, in the middle of a head, with a reply that is not read: more than there is room for.
        let mut others: Vec<TcpStream> = (0..3 * CLIENTS_MAX).map(|_| connect(address)).collect();
        others.iter_mut().step_by(3).for_each(|other| _ = other.write(b"GET /x HT"));
        others.iter_mut().skip(1).step_by(3).for_each(|other| _ = other.write(b"GET /x HTTP/1.1\r\n\r\n"));
        let told = ask(address, "GET /x HTTP/1.1\r\nHost: z\r\n\r\n");
        assert!(told.starts_with("HTTP/1.1 200 OK") && told.ends_with("yyy"), "{}", &told[..100]);
        assert!(ask(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(address, "POST /x HTTP/1.1\n\n").starts_with("HTTP/1.1 404"));
    }

    #[test]
    fn a_client_has_a_limited_time() {
        let mut idle = connect(start(Duration::from_millis(1)));
        assert_eq!(idle.read(&mut [0]).unwrap(), 0, "the connection was closed");
    }
}

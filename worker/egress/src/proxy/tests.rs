use super::*;
use std::collections::VecDeque;
use std::sync::Mutex;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::task::JoinHandle;

/// A proxy on a port, and what it denied.
struct Fixture {
    address: SocketAddr,
    denied: mpsc::Receiver<Denied>,
    _server: JoinSet<()>,
}

impl Fixture {
    async fn start(policy: &str) -> Self {
        Self::start_with(policy, Limits::default(), |proxy| proxy).await
    }

    async fn start_with(policy: &str, limits: Limits, change: impl FnOnce(Proxy) -> Proxy) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (proxy, denied) = Proxy::new(NetworkPolicy::parse(policy).unwrap(), limits);
        let mut server = JoinSet::new();
        server.spawn(change(proxy).serve(listener));
        Self { address, denied, _server: server }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends a request and reads the response until the proxy closes.
    async fn request(&self, text: &str) -> String {
        exchange(self.connect().await, text).await
    }

    /// Requests a tunnel with SOCKS5. Returns the reply, and the stream.
    async fn socks(&self, target: &[u8]) -> (u8, TcpStream) {
        let mut stream = self.connect().await;
        stream.write_all(&[5, 1, 0]).await.unwrap();
        let mut method = [0; 2];
        stream.read_exact(&mut method).await.unwrap();
        assert_eq!(method, [5, 0]);
        stream.write_all(&[&[5, 1, 0], target].concat()).await.unwrap();
        let mut reply = [0; 10];
        stream.read_exact(&mut reply).await.unwrap();
        (reply[1], stream)
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, text: &str) -> String {
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

/// A server that answers each request with its head. Returns its port.
async fn echo_server() -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    if stream.read_line(&mut head).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                let response = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{head}",
                    head.len()
                );
                let _ = stream.write_all(response.as_bytes()).await;
            });
        }
    });
    (port, task)
}

/// A resolver that gives these answers, one after the other, and counts its calls in `calls`.
fn answers(answers: &[&[&str]], calls: Arc<Mutex<Vec<String>>>) -> Resolver {
    let parsed = answers.iter().map(|addresses| addresses.iter().map(|a| a.parse().unwrap()).collect());
    let left: Arc<Mutex<VecDeque<Vec<IpAddr>>>> = Arc::new(Mutex::new(parsed.collect()));
    Arc::new(move |name| {
        calls.lock().unwrap().push(name);
        let addresses = left.lock().unwrap().pop_front();
        Box::pin(async move { addresses.ok_or_else(|| io::Error::other("no more answers")) })
    })
}

fn port_bytes(port: u16) -> [u8; 2] {
    port.to_be_bytes()
}

#[tokio::test]
async fn tunnels_to_allowed_hosts_are_connected() {
    let (port, _server) = echo_server().await;
    let fixture = Fixture::start(&format!("127.0.0.1:{port}")).await;
    let response = fixture
        .request(&format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\n\r\nGET /a HTTP/1.1\r\n\r\n"))
        .await;
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(response.ends_with("\r\n\r\nGET /a HTTP/1.1\r\n\r\n"), "{response}");
    let [high, low] = port_bytes(port);
    let (reply, stream) = fixture.socks(&[1, 127, 0, 0, 1, high, low]).await;
    assert_eq!(reply, 0);
    assert!(exchange(stream, "GET /b HTTP/1.1\r\n\r\n").await.ends_with("GET /b HTTP/1.1\r\n\r\n"));
}

#[tokio::test]
async fn absolute_urls_are_forwarded_without_headers_of_the_connection() {
    let (port, _server) = echo_server().await;
    let fixture = Fixture::start(&format!("127.0.0.1:{port}")).await;
    let response = fixture
        .request(&format!(
            "GET http://127.0.0.1:{port}/a?b=c HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: x\r\n\
             Proxy-Connection: keep-alive\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nX-Kept: 1\r\n\r\n"
        ))
        .await;
    let body = response.split_once("\r\n\r\n").unwrap().1.to_lowercase();
    assert!(body.starts_with("get /a?b=c http/1.1\r\n"), "{body}");
    assert!(body.contains(&format!("host: 127.0.0.1:{port}\r\n")), "the host is that of the URL: {body}");
    assert!(body.contains("x-kept: 1"), "{body}");
    for header in ["evil", "proxy-", "x-hop"] {
        assert!(!body.contains(header), "{header} is forwarded: {body}");
    }
}

#[tokio::test]
async fn unix_sockets_are_served_too() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("proxy");
    let (proxy, _denied) = Proxy::new(NetworkPolicy::None, Limits::default());
    let _server = tokio::spawn(proxy.serve(UnixListener::bind(&path).unwrap()));
    let stream = UnixStream::connect(&path).await.unwrap();
    let response = exchange(stream, "GET http://example.com/ HTTP/1.1\r\nConnection: close\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{response}");
}

#[tokio::test]
async fn denied_connection_names_host_and_setting() {
    let mut fixture = Fixture::start("public").await;
    for request in [
        "CONNECT 169.254.169.254:80 HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET http://0xa9fea9fe/latest/meta-data HTTP/1.1\r\nConnection: close\r\n\r\n",
    ] {
        let response = fixture.request(request).await;
        assert!(response.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{response}");
        assert!(response.contains("169.254.169.254:80") && response.contains("NETWORK"), "{response}");
    }
    let first = fixture.denied.recv().await.unwrap();
    assert_eq!((first.host.as_str(), first.port, first.why), ("169.254.169.254", 80, Denial::NotPublic));
    assert!(fixture.denied.try_recv().is_err(), "one report a minute");
}

#[tokio::test]
async fn every_protocol_denies_addresses_of_this_machine() {
    let (port, _server) = echo_server().await;
    let fixture = Fixture::start("public").await;
    for host in
        ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "[::ffff:127.0.0.1]", "LOCALHOST."]
    {
        for request in [
            format!("CONNECT {host}:{port} HTTP/1.1\r\nConnection: close\r\n\r\n"),
            format!("GET http://{host}:{port}/ HTTP/1.1\r\nConnection: close\r\n\r\n"),
        ] {
            let response = fixture.request(&request).await;
            assert!(response.starts_with("HTTP/1.1 403 "), "{request}: {response}");
        }
        let name = host.trim_start_matches('[').trim_end_matches(']');
        let length = u8::try_from(name.len()).unwrap();
        let request = [&[3, length], name.as_bytes(), &port_bytes(port)].concat();
        assert_eq!(fixture.socks(&request).await.0, 2, "{host}");
    }
    let [high, low] = port_bytes(port);
    assert_eq!(fixture.socks(&[1, 127, 0, 0, 1, high, low]).await.0, 2);
    let mapped = std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets();
    assert_eq!(fixture.socks(&[&[4], &mapped[..], &[high, low]].concat()).await.0, 2);
}

#[tokio::test]
async fn requests_that_hide_their_host_are_rejected() {
    let fixture = Fixture::start("example.com").await;
    for request in [
        "GET http://example.com@127.0.0.1/ HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET http://example.com:80@127.0.0.1/ HTTP/1.1\r\nConnection: close\r\n\r\n",
        "CONNECT example.com:443@127.0.0.1:443 HTTP/1.1\r\nConnection: close\r\n\r\n",
        "CONNECT example.com HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET http://example.com\\@127.0.0.1/ HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET https://example.com/ HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n",
        "GET http://a..b/ HTTP/1.1\r\nConnection: close\r\n\r\n",
    ] {
        let response = fixture.request(request).await;
        assert!(response.starts_with("HTTP/1.1 400 "), "{request}: {response}");
    }
}

#[tokio::test]
async fn name_is_resolved_once_and_its_checked_address_is_used() {
    let (port, _server) = echo_server().await;
    let calls = Arc::new(Mutex::new(Vec::new()));
    // A second resolution would give a public address, to which the test cannot connect.
    let resolver = answers(&[&["127.0.0.1"], &["1.1.1.1"]], calls.clone());
    let policy = format!("localhost:{port}");
    let fixture =
        Fixture::start_with(&policy, Limits::default(), |proxy| proxy.with_resolver(resolver)).await;
    let response =
        fixture.request(&format!("GET http://localhost:{port}/ HTTP/1.1\r\nConnection: close\r\n\r\n")).await;
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    assert_eq!(*calls.lock().unwrap(), ["localhost"]);
}

#[tokio::test]
async fn name_that_is_rebound_to_a_private_address_is_denied() {
    let (port, _server) = echo_server().await;
    for (policy, addresses) in [
        ("public", &["127.0.0.1"][..]),
        ("public", &["1.1.1.1", "127.0.0.1"]),
        ("public", &["::ffff:10.0.0.1"]),
        ("public", &["169.254.169.254"]),
        ("*.example.com", &["10.0.0.1"]),
        ("rebound.example.com", &["127.0.0.1"]),
        ("rebound.example.com", &["169.254.169.254"]),
    ] {
        let resolver = answers(&[addresses, addresses], Arc::default());
        let fixture =
            Fixture::start_with(policy, Limits::default(), |proxy| proxy.with_resolver(resolver)).await;
        // The allowlists are for ports 80 and 443.
        let port = if policy == "public" { port } else { 80 };
        let request = format!("GET http://rebound.example.com:{port}/ HTTP/1.1\r\nConnection: close\r\n\r\n");
        let response = fixture.request(&request).await;
        assert!(response.starts_with("HTTP/1.1 403 "), "{policy} {addresses:?}: {response}");
    }
}

#[tokio::test]
async fn allowlist_is_checked_before_names_are_resolved() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let resolver = answers(&[], calls.clone());
    let fixture =
        Fixture::start_with("example.com", Limits::default(), |proxy| proxy.with_resolver(resolver)).await;
    let request = "CONNECT secret.evil.example:443 HTTP/1.1\r\nConnection: close\r\n\r\n";
    assert!(fixture.request(request).await.starts_with("HTTP/1.1 403 "));
    assert!(calls.lock().unwrap().is_empty(), "a DNS query could carry data out");
}

#[tokio::test]
async fn own_servers_are_reachable_with_every_policy() {
    let (port, _server) = echo_server().await;
    let own = SocketAddr::from(([127, 0, 0, 1], port));
    let fixture = Fixture::start_with("none", Limits::default(), |proxy| proxy.with_own([own])).await;
    let get = |port: u16| format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!(fixture.request(&get(port)).await.starts_with("HTTP/1.1 200 "));
    assert!(fixture.request(&get(port ^ 1)).await.starts_with("HTTP/1.1 403 "));
}

#[tokio::test]
async fn unreachable_servers_are_bad_gateways() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let resolver = answers(&[], Arc::default());
    let policy = format!("127.0.0.1:{closed}, unknown.example");
    let fixture =
        Fixture::start_with(&policy, Limits::default(), |proxy| proxy.with_resolver(resolver)).await;
    for host in [format!("127.0.0.1:{closed}"), "unknown.example:443".to_owned()] {
        let response =
            fixture.request(&format!("CONNECT {host} HTTP/1.1\r\nConnection: close\r\n\r\n")).await;
        assert!(response.starts_with("HTTP/1.1 502 "), "{response}");
    }
    let [high, low] = port_bytes(closed);
    assert_eq!(fixture.socks(&[1, 127, 0, 0, 1, high, low]).await.0, 5);
}

#[tokio::test]
async fn socks_supports_only_connect_without_authentication() {
    let fixture = Fixture::start("public").await;
    let mut stream = fixture.connect().await;
    stream.write_all(&[5, 1, 2]).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, [5, 0xFF], "a password is not accepted");
    for (command, kind, reply) in [(2, 1, 7), (3, 1, 7), (1, 9, 8)] {
        let mut stream = fixture.connect().await;
        stream.write_all(&[5, 1, 0, 5, command, 0, kind, 1, 1, 1, 1, 0, 80]).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert_eq!(answer[2..4], [5, reply]);
    }
}

/// The clock is paused: it advances when no task has anything left to do.
#[tokio::test(start_paused = true)]
async fn silent_clients_are_disconnected() {
    let limits = Limits { head: Duration::from_secs(5), idle: Duration::from_secs(60), ..Limits::default() };
    let (proxy, _denied) = Proxy::new(NetworkPolicy::Public, limits);
    for begin in ["", "GET http://exam", "\u{5}"] {
        let (mut client, server) = tokio::io::duplex(1024);
        client.write_all(begin.as_bytes()).await.unwrap();
        let before = tokio::time::Instant::now();
        let _ = proxy.serve_client(server).await;
        assert!(before.elapsed() <= Duration::from_secs(6), "{begin:?}: {:?}", before.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn connection_without_traffic_ends() {
    let (mut client, server) = tokio::io::duplex(1024);
    let mut stream = Idle::new(server, Duration::from_secs(60));
    let before = tokio::time::Instant::now();
    client.write_all(b"a").await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'a');
    let error = stream.read_u8().await.unwrap_err();
    assert_eq!((error.kind(), before.elapsed().as_secs()), (io::ErrorKind::TimedOut, 60));
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let limits = Limits { connections: 1, ..Limits::default() };
    let fixture = Fixture::start_with("none", limits, |proxy| proxy).await;
    let first = fixture.connect().await;
    let request = "CONNECT a.example:443 HTTP/1.1\r\nConnection: close\r\n\r\n";
    let second = fixture.connect().await;
    let second = tokio::spawn(exchange(second, request));
    let response = exchange(first, request).await;
    assert!(response.starts_with("HTTP/1.1 403 "), "{response}");
    assert!(second.await.unwrap().starts_with("HTTP/1.1 403 "));
}

#[tokio::test(start_paused = true)]
async fn denied_connections_are_counted_and_reported_once_a_minute() {
    let (denials, mut reports) = Denials::new();
    let target = |host: &str| Target::parse(host, 443).unwrap();
    for _ in 0..5 {
        denials.report(&target("a.example"), Denial::NotListed);
    }
    denials.report(&target("b.example"), Denial::NotListed);
    tokio::time::advance(Duration::from_secs(61)).await;
    denials.report(&target("a.example"), Denial::NotListed);
    let mut seen = Vec::new();
    while let Ok(denied) = reports.try_recv() {
        seen.push((denied.host, denied.count));
    }
    let expected = [("a.example", 1), ("b.example", 1), ("a.example", 5)];
    assert_eq!(seen, expected.map(|(host, count)| (host.to_owned(), count)));
    for number in 0..1_000 {
        denials.report(&target(&format!("{number}.example")), Denial::NotListed);
    }
    let mut number = 0;
    while reports.try_recv().is_ok() {
        number += 1;
    }
    assert!(number <= 101, "an agent cannot flood the log: {number} reports");
}

use super::*;
use http::HeaderName;
use std::net::SocketAddr;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

const REAL: &str = "real-key-of-the-operator";
const WORTHLESS: &str = "worthless-key";

/// A service that hands its connections to the test.
struct Service {
    address: SocketAddr,
    listener: TcpListener,
}

/// One request to the service: its head, and the connection.
struct Request {
    head: String,
    stream: BufReader<TcpStream>,
}

impl Service {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self { address: listener.local_addr().unwrap(), listener }
    }

    async fn request(&self) -> Request {
        let (stream, _) = self.listener.accept().await.unwrap();
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(stream.read_line(&mut head).await.unwrap(), 0, "{head}");
        }
        Request { head, stream }
    }

    /// Whether a request has arrived.
    async fn is_idle(&self) -> bool {
        tokio::select! {
            biased;
            _ = self.listener.accept() => false,
            () = tokio::task::yield_now() => true,
        }
    }
}

impl Request {
    async fn write(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads the chunks of the body until it ends with `end`.
    async fn read_until(&mut self, end: &str) {
        let mut body = Vec::new();
        while !body.ends_with(end.as_bytes()) {
            body.push(self.stream.read_u8().await.unwrap());
        }
    }

    async fn respond(mut self, head: &str, body: &str) {
        let length = body.len();
        self.write(&format!(
            "HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
        .await;
    }
}

/// The endpoint `/model` for a service below its path `/base`.
struct Fixture {
    service: Service,
    address: SocketAddr,
    meter: Meter,
    _server: JoinSet<()>,
}

impl Fixture {
    async fn start(form: Form) -> Self {
        let service = Service::start().await;
        let meter = Meter::default();
        let endpoint = Endpoint {
            prefix: "/model".into(),
            upstream: format!("http://{}/base", service.address).parse().unwrap(),
            keys: vec![Key::new(form, WORTHLESS, REAL).unwrap()],
            meter: meter.clone(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut server = JoinSet::new();
        server.spawn(Endpoints::new(vec![endpoint]).unwrap().serve(listener));
        Self { service, address, meter, _server: server }
    }

    async fn send(&self, request: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        BufReader::new(stream)
    }

    /// Sends a request with a valid key, and answers it. Returns the request that the service got, and the response.
    async fn exchange(&self, request: &str, head: &str, body: &str) -> (String, String) {
        let mut client = self.send(request).await;
        let forwarded = self.service.request().await;
        let got = forwarded.head.clone();
        forwarded.respond(head, body).await;
        (got, read(&mut client).await)
    }
}

async fn read(client: &mut BufReader<TcpStream>) -> String {
    let mut response = String::new();
    client.read_to_string(&mut response).await.unwrap();
    response
}

fn api_key() -> Form {
    Form::Header(HeaderName::from_static("x-api-key"))
}

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")
}

fn with_key(path: &str) -> String {
    get(path, &format!("X-Api-Key: {WORTHLESS}\r\n"))
}

#[tokio::test]
async fn worthless_key_is_replaced_in_the_same_form() {
    let basic = Form::Basic { user: "x-access-token".into() };
    for (form, name) in [(api_key(), "x-api-key"), (Form::Bearer, "authorization"), (basic, "authorization")]
    {
        let fixture = Fixture::start(form.clone()).await;
        let presented =
            format!("{name}: {}\r\nAnthropic-Version: 1\r\nCookie: a=b\r\n", form.value(WORTHLESS));
        let request = get("/model/v1/messages?beta=true", &presented);
        let (got, response) = fixture.exchange(&request, "200 OK\r\nRequest-Id: 7", "{}").await;
        assert!(got.starts_with("GET /base/v1/messages?beta=true HTTP/1.1\r\n"), "{got}");
        assert!(got.contains(&format!("{name}: {}\r\n", form.value(REAL))), "{got}");
        assert!(!got.contains(&form.value(WORTHLESS)) && !got.contains("cookie"), "{got}");
        assert!(got.contains("anthropic-version: 1\r\n"), "other headers are kept: {got}");
        assert!(got.contains(&format!("host: {}\r\n", fixture.service.address)), "{got}");
        assert!(response.contains("request-id: 7\r\n") && response.ends_with("\r\n\r\n{}"), "{response}");
    }
}

#[tokio::test]
async fn request_without_the_key_of_the_sandbox_is_rejected() {
    let fixture = Fixture::start(api_key()).await;
    for headers in [
        "",
        "X-Api-Key: another-key\r\n",
        "X-Api-Key: worthless-ke\r\n",
        "Authorization: Bearer worthless-key\r\n",
        "X-Other: worthless-key\r\n",
    ] {
        let response = read(&mut fixture.send(&get("/model/v1/messages", headers)).await).await;
        assert!(response.starts_with("HTTP/1.1 401 "), "{headers}: {response}");
        assert!(!response.contains(REAL) && !response.contains(WORTHLESS), "{response}");
    }
    assert!(fixture.service.is_idle().await);
    assert_eq!(fixture.meter.requests(), 0);
}

#[tokio::test]
async fn path_outside_of_the_service_is_not_found() {
    let fixture = Fixture::start(api_key()).await;
    for path in ["/", "/other", "/models", "/model/../x", "/model/%2e%2e/x", "/model/..%2fx"] {
        let response = read(&mut fixture.send(&with_key(path)).await).await;
        assert!(response.starts_with("HTTP/1.1 404 "), "{path}: {response}");
    }
    assert!(fixture.service.is_idle().await);
}

#[tokio::test]
async fn chunks_of_an_event_stream_arrive_one_by_one() {
    let fixture = Fixture::start(api_key()).await;
    let mut client = fixture.send(&with_key("/model/v1/messages")).await;
    let mut request = fixture.service.request().await;
    request
        .write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        client.read_line(&mut line).await.unwrap();
    }
    for number in 0..3 {
        let event = format!("data: {{\"usage\":{{\"output_tokens\":{number}}}}}\n\n");
        request.write(&format!("{:x}\r\n{event}\r\n", event.len())).await;
        // The next event is not sent before this one has arrived.
        let mut received = String::new();
        while !received.contains(&event) {
            assert_ne!(client.read_line(&mut received).await.unwrap(), 0, "{received}");
        }
        assert_eq!(fixture.meter.tokens().output, number);
    }
    request.write("0\r\n\r\n").await;
    assert_eq!(read(&mut client).await, "\r\n0\r\n\r\n");
}

#[tokio::test]
async fn body_of_a_request_is_streamed() {
    let fixture = Fixture::start(api_key()).await;
    let mut client = fixture
        .send(&format!(
            "POST /model/v1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Api-Key: {WORTHLESS}\r\n\
             Transfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n"
        ))
        .await;
    let mut request = fixture.service.request().await;
    request.read_until("first").await;
    client.write_all(b"6\r\nsecond\r\n0\r\n\r\n").await.unwrap();
    request.read_until("second").await;
    request.respond("200 OK", "done").await;
    assert!(read(&mut client).await.ends_with("done"));
}

#[tokio::test]
async fn response_that_repeats_the_key_is_masked() {
    let encoded = Form::Basic { user: "x-access-token".into() }.value(REAL);
    for (form, repeated) in [(api_key(), REAL), (Form::Basic { user: "x-access-token".into() }, &encoded)] {
        let fixture = Fixture::start(form.clone()).await;
        let name = if form == api_key() { "X-Api-Key" } else { "Authorization" };
        let request = get("/model/echo", &format!("{name}: {}\r\n", form.value(WORTHLESS)));
        let (_, response) = fixture
            .exchange(
                &request,
                &format!("400 Bad Request\r\nX-Echo: {repeated}"),
                &format!("key {repeated}!"),
            )
            .await;
        assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
        assert!(!response.contains(REAL) && !response.contains(repeated), "{response}");
        assert!(!response.contains("x-echo") && response.ends_with("*!"), "{response}");
    }
}

#[tokio::test]
async fn response_of_a_service_that_rejects_the_key_is_withheld() {
    let fixture = Fixture::start(api_key()).await;
    let body = format!("Incorrect API key: {}…", &REAL[..6]);
    let (_, response) = fixture.exchange(&with_key("/model/v1"), "401 Unauthorized", &body).await;
    assert!(response.starts_with("HTTP/1.1 401 ") && response.contains("authentication_error"), "{response}");
    assert!(!response.contains(&REAL[..6]), "{response}");
}

#[tokio::test]
async fn redirects_are_passed_on_and_not_followed() {
    let fixture = Fixture::start(api_key()).await;
    let elsewhere = Service::start().await;
    let head = format!("302 Found\r\nLocation: http://{}/", elsewhere.address);
    let (_, response) = fixture.exchange(&with_key("/model/v1"), &head, "").await;
    assert!(response.starts_with("HTTP/1.1 302 "), "{response}");
    assert!(elsewhere.is_idle().await, "the key stays with its service");
}

#[tokio::test]
async fn service_that_is_unreachable_is_a_bad_gateway() {
    let fixture = Fixture::start(api_key()).await;
    let Fixture { service, address, _server, .. } = fixture;
    drop(service);
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(with_key("/model/v1?token=planted").as_bytes()).await.unwrap();
    let response = read(&mut BufReader::new(client)).await;
    assert!(response.starts_with("HTTP/1.1 502 "), "{response}");
    assert!(!response.contains(REAL) && !response.contains("planted"), "{response}");
}

#[tokio::test]
async fn refused_requests_are_not_forwarded() {
    let fixture = Fixture::start(api_key()).await;
    for (refusal, status) in [
        (Refusal::Budget("the budget of the task is used up".into()), "402"),
        (Refusal::RateLimit("the quota of the org is used up".into()), "429"),
    ] {
        fixture.meter.refuse(Some(refusal));
        let response = read(&mut fixture.send(&with_key("/model/v1")).await).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
        assert!(response.contains("used up"), "{response}");
    }
    assert!(fixture.service.is_idle().await);
    fixture.meter.refuse(None);
    let (_, response) = fixture.exchange(&with_key("/model/v1"), "200 OK", "again").await;
    assert!(response.ends_with("again"), "{response}");
    assert_eq!(fixture.meter.requests(), 1);
}

#[tokio::test]
async fn tokens_of_forwarded_responses_are_counted() {
    let fixture = Fixture::start(api_key()).await;
    for _ in 0..2 {
        let body = r#"{"usage": {"input_tokens": 10, "output_tokens": 2}}"#;
        fixture.exchange(&with_key("/model/v1"), "200 OK\r\nContent-Type: application/json", body).await;
    }
    assert_eq!(fixture.meter.tokens(), Tokens { input: 20, output: 4, ..Tokens::default() });
}

#[test]
fn keys_are_omitted_from_debug_output() {
    let key = Key::new(Form::Bearer, WORTHLESS, REAL).unwrap();
    let shown = format!("{key:?}");
    assert!(!shown.contains(REAL) && !shown.contains(WORTHLESS), "{shown}");
}

#[test]
fn key_that_is_no_header_value_is_rejected() {
    assert_eq!(Key::new(Form::Bearer, WORTHLESS, "two\nlines"), None);
}

/// Responds with the names of the headers and the body that it gets.
#[derive(Debug)]
struct Echo;

impl Handler for Echo {
    fn respond(&self, request: http::Request<Body>) -> Responding<'_> {
        Box::pin(async {
            let (head, mut body) = request.into_parts();
            let names: Vec<&str> = head.headers.keys().map(HeaderName::as_str).collect();
            let mut received = format!("{} {}\n", head.uri.path(), names.join(",")).into_bytes();
            while let Some(chunk) = next_chunk(&mut body).await {
                received.extend_from_slice(&chunk.unwrap());
            }
            http::Response::new(full(received))
        })
    }
}

#[tokio::test]
async fn handler_gets_requests_below_its_path_without_their_key() {
    let form = Form::Basic { user: "agent".into() };
    let key = Key::new(form.clone(), WORTHLESS, WORTHLESS).unwrap();
    let handled = Handled { prefix: "/git".into(), key, handler: Arc::new(Echo) };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(Endpoints::new(Vec::new()).unwrap().with_handled([handled]).serve(listener));
    let respond = async |path: &str, authorization: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: {authorization}\r\n\
             Content-Length: 5\r\n\r\nhello"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    };
    let right = form.value(WORTHLESS);
    let response = respond("/git/info/refs", &right).await;
    assert!(response.ends_with("\r\n\r\n/git/info/refs host,connection,content-length\nhello"), "{response}");
    for (path, authorization, status) in [
        ("/git/info/refs", "Basic d3Jvbmc=", 401),
        ("/git/info/refs", "Bearer worthless-key", 401),
        ("/github", right.as_str(), 404),
        ("/other", right.as_str(), 404),
    ] {
        let response = respond(path, authorization).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {response}");
    }
    server.abort();
}

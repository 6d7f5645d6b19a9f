//! The network of the agent: endpoints for its keys, and a proxy.
//!
//! The agent holds no key of a service. It receives a random key that is worthless elsewhere, and the URL of an endpoint
//! of the worker, which replaces the key with the real one. The same holds for git and the repository of the task: git's
//! configuration replaces the repository's URL with that of an endpoint. Other repositories get no credential.
//!
//! The servers listen on the loopback. Without a network namespace, other processes of this machine can connect to them,
//! but need a worthless key of this sandbox; and programs that ignore `HTTP_PROXY` are not restricted by the policy.

use crate::agents::KeyForm;
use crate::config::{Config, ServiceKeys};
use crate::event::Event;
use crate::outbox::Outbox;
use crate::secret::Secret;
use crate::tasks::Tasks;
use crate::workspace::{Credential, Repository};
use anyhow::Context;
use contract::payloads::NetworkDenied;
use egress::bridge::Bridge;
use egress::endpoint::{Endpoint, Endpoints, Form, Key, Meter};
use egress::proxy::{Denied, Limits, Proxy};
use http::HeaderName;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc;
use uuid::Uuid;

/// Path of the endpoint for git.
const GIT: &str = "/git";

/// Hosts that are reached without the proxy: servers of the agent itself.
const NO_PROXY: &str = "localhost,127.0.0.1,::1";

/// Open servers, which do not serve yet.
#[derive(Debug)]
pub struct Network {
    /// Environment variables of the agent and of git.
    pub variables: Vec<(String, String)>,
    /// The worthless keys, by the variables in which the agent has them. They are redacted like the real ones: until the
    /// sandbox ends, other processes of this machine could use them.
    pub keys: Vec<(String, Secret)>,
    /// Counts the tokens of all services, and stops their endpoints.
    pub meter: Meter,
    endpoints: Option<(Endpoints, TcpListener)>,
    proxy: Option<(Proxy, mpsc::Receiver<Denied>, TcpListener)>,
    /// For a bridge: endpoints and proxy.
    sockets: (Option<UnixListener>, Option<UnixListener>),
}

impl Network {
    /// Opens the servers that the configuration needs.
    ///
    /// # Errors
    /// If a port cannot be opened, or a key cannot be sent in a header.
    pub async fn open(config: &Config) -> anyhow::Result<Self> {
        let mut network = Self {
            variables: Vec::new(),
            keys: Vec::new(),
            meter: Meter::default(),
            endpoints: None,
            proxy: None,
            sockets: (None, None),
        };
        let credential = config.repository.as_ref().and_then(Repository::credential);
        let mut own = None;
        if !config.services.is_empty() || credential.is_some() {
            let listener = listen().await?;
            let address = listener.local_addr()?;
            own = Some(address);
            let base = format!("http://{address}");
            let mut endpoints = Vec::new();
            for service in &config.services {
                endpoints.push(network.service(service, &base)?);
            }
            if let Some(credential) = &credential {
                endpoints.push(network.git(credential, &base)?);
            }
            let endpoints = Endpoints::new(endpoints).context("cannot read the root certificates")?;
            network.endpoints = Some((endpoints, listener));
        }
        if let Some(policy) = &config.network {
            let listener = listen().await?;
            network.variables.extend(proxy_variables(listener.local_addr()?));
            let (proxy, denied) = Proxy::new(policy.clone(), Limits::default());
            network.proxy = Some((proxy.with_own(own), denied, listener));
        }
        Ok(network)
    }

    /// Opens Unix sockets in a directory, for a bridge in a network namespace: there, it listens on the same ports of the
    /// loopback. The agent must not be able to write to the directory.
    ///
    /// # Errors
    /// If a socket cannot be opened.
    pub fn bridge(&mut self, directory: &Path) -> anyhow::Result<Bridge> {
        let open = |listener: Option<&TcpListener>, name: &str| -> anyhow::Result<Option<_>> {
            let Some(listener) = listener else { return Ok(None) };
            let path = directory.join(name);
            let socket =
                UnixListener::bind(&path).with_context(|| format!("cannot open {}", path.display()))?;
            Ok(Some((socket, (listener.local_addr()?.port(), path))))
        };
        let endpoints = open(self.endpoints.as_ref().map(|(_, listener)| listener), "endpoints")?;
        let proxy = open(self.proxy.as_ref().map(|(_, _, listener)| listener), "proxy")?;
        let (endpoints, proxy) = (endpoints.unzip(), proxy.unzip());
        self.sockets = (endpoints.0, proxy.0);
        let ports = endpoints.1.into_iter().chain(proxy.1).collect();
        Ok(Bridge { ports, inbound: Some(directory.join("inbound")) })
    }

    /// Serves until the tasks are dropped. Denied connections become events.
    pub fn serve(self, tasks: &mut Tasks, outbox: Outbox) {
        let (endpoints_socket, proxy_socket) = self.sockets;
        if let Some((endpoints, listener)) = self.endpoints {
            if let Some(socket) = endpoints_socket {
                tasks.spawn("serving endpoints on a socket", endpoints.clone().serve(socket));
            }
            tasks.spawn("serving endpoints", endpoints.serve(listener));
        }
        if let Some((proxy, mut denied, listener)) = self.proxy {
            if let Some(socket) = proxy_socket {
                tasks.spawn("serving the proxy on a socket", proxy.clone().serve(socket));
            }
            tasks.spawn("serving the proxy", proxy.serve(listener));
            tasks.spawn("reporting denied connections", async move {
                while let Some(denied) = denied.recv().await {
                    outbox.emit(Event::worker(event(denied)));
                }
            });
        }
    }

    /// The endpoint of a service. The agent finds its URL and keys in the variables in which it expects the real ones.
    fn service(&mut self, service: &ServiceKeys, base: &str) -> anyhow::Result<Endpoint> {
        let prefix = format!("/{}", service.service.name);
        self.variables.push((service.service.url.to_owned(), format!("{base}{prefix}")));
        let mut keys = Vec::new();
        for (variable, form, real) in &service.keys {
            let form = match form {
                KeyForm::Bearer => Form::Bearer,
                KeyForm::ApiKey => Form::Header(HeaderName::from_static("x-api-key")),
            };
            let presented = self.worthless_key(variable);
            keys.push(key(variable, form, &presented, real)?);
        }
        Ok(Endpoint { prefix, upstream: service.upstream.clone(), keys, meter: self.meter.clone() })
    }

    /// The endpoint of the repository. Only this repository's URL is replaced with that of the endpoint.
    fn git(&mut self, credential: &Credential, base: &str) -> anyhow::Result<Endpoint> {
        let presented = worthless_key();
        let form = Form::Basic { user: credential.username.clone() };
        let url = format!("{base}{GIT}");
        let header = format!("Authorization: {}", form.value(&presented));
        let settings = [
            (format!("url.{url}.insteadOf"), credential.url.to_string()),
            (format!("http.{url}.extraHeader"), header),
        ];
        self.variables.push(("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string()));
        for (index, (key, value)) in settings.into_iter().enumerate() {
            self.variables.push((format!("GIT_CONFIG_KEY_{index}"), key));
            self.variables.push((format!("GIT_CONFIG_VALUE_{index}"), value));
        }
        self.variables.push(("GIT_TERMINAL_PROMPT".to_owned(), "0".to_owned()));
        self.keys.push(("GIT".to_owned(), Secret::new(presented.as_str())));
        let key = key("GITHUB_TOKEN", form, &presented, &credential.token)?;
        // Tokens of models are counted, and git has none. Its endpoint must work when a budget is used up.
        let meter = Meter::default();
        Ok(Endpoint { prefix: GIT.to_owned(), upstream: credential.url.clone(), keys: vec![key], meter })
    }

    /// The key for a variable: the same for all forms of a key.
    fn worthless_key(&mut self, variable: &str) -> String {
        if let Some((_, key)) = self.keys.iter().find(|(name, _)| name == variable) {
            return key.reveal().to_owned();
        }
        let key = worthless_key();
        self.keys.push((variable.to_owned(), Secret::new(key.as_str())));
        self.variables.push((variable.to_owned(), key.clone()));
        key
    }
}

async fn listen() -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    listener.context("cannot listen on the loopback, for the agent's network")
}

fn worthless_key() -> String {
    format!("sunaba-{}", Uuid::new_v4().simple())
}

fn key(variable: &str, form: Form, presented: &str, real: &Secret) -> anyhow::Result<Key> {
    Key::new(form, presented, real.reveal())
        .with_context(|| format!("{variable} contains characters that cannot be sent in an HTTP header"))
}

/// In both spellings, because programs differ. Programs that only know SOCKS find the same proxy there, by HTTP: clients
/// that support SOCKS in `ALL_PROXY` support HTTP as well, and some fail on a SOCKS URL.
fn proxy_variables(address: SocketAddr) -> Vec<(String, String)> {
    let url = format!("http://{address}");
    let names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].map(|name| (name, url.as_str()));
    let names = names.into_iter().chain([("NO_PROXY", NO_PROXY)]);
    let both = names.flat_map(|(name, value)| [(name.to_owned(), value), (name.to_lowercase(), value)]);
    // Node.js ignores the proxy otherwise.
    let all = both.chain([("NODE_USE_ENV_PROXY".to_owned(), "1")]);
    all.map(|(name, value)| (name, value.to_owned())).collect()
}

fn event(denied: Denied) -> NetworkDenied {
    NetworkDenied {
        host: denied.host,
        port: denied.port,
        reason: denied.why.to_string(),
        count: denied.count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::AGENTS;
    use crate::fake_plane::FakePlane;
    use std::collections::BTreeMap;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;

    async fn open(variables: &[(&str, &str)]) -> (Network, BTreeMap<String, String>) {
        let environment = [("SANDBOX_ID", "box")].iter().chain(variables);
        let environment =
            environment.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (config, problems) = Config::read(&environment, AGENTS);
        let network = Network::open(&config.unwrap_or_else(|| panic!("{problems:?}"))).await.unwrap();
        let variables = network.variables.iter().cloned().collect();
        (network, variables)
    }

    #[tokio::test]
    async fn agent_gets_a_worthless_key_for_each_real_one() {
        let real = [
            ("ANTHROPIC_API_KEY", "planted-1"),
            ("ANTHROPIC_AUTH_TOKEN", "planted-2"),
            ("CLAUDE_CODE_OAUTH_TOKEN", "planted-3"),
            ("OPENAI_API_KEY", "planted-4"),
            ("LLM_API_KEY", "planted-5"),
        ];
        let (network, variables) = open(&real).await;
        let mut keys: Vec<&String> = real.iter().map(|(name, _)| &variables[*name]).collect();
        assert!(keys.iter().all(|key| key.starts_with("sunaba-")), "{keys:?}");
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), real.len(), "each is different");
        for (name, path) in
            [("ANTHROPIC_BASE_URL", "/anthropic"), ("OPENAI_BASE_URL", "/openai"), ("LLM_BASE_URL", "/llm")]
        {
            let url = &variables[name];
            assert!(url.starts_with("http://127.0.0.1:") && url.ends_with(path), "{url}");
        }
        let redacted: Vec<&str> = network.keys.iter().map(|(name, _)| name.as_str()).collect();
        assert!(real.iter().all(|(name, _)| redacted.contains(name)), "{redacted:?}");
        assert!(!format!("{network:?}").contains("planted"), "debug output must not contain secrets");
    }

    #[tokio::test]
    async fn sockets_of_a_bridge_serve_the_same_endpoints_and_proxy() {
        let (mut network, variables) =
            open(&[("ANTHROPIC_API_KEY", "planted-1"), ("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")]).await;
        let folder = tempfile::tempdir().unwrap();
        let bridge = network.bridge(folder.path()).unwrap();
        let plane = FakePlane::start(0).await;
        let mut tasks = Tasks::default();
        network.serve(&mut tasks, crate::outbox::tests::open(&plane, &folder.path().join("outbox")));
        assert_eq!(bridge.ports.len(), 2);
        for ((port, socket), (variable, path, status)) in bridge
            .ports
            .iter()
            .zip([("ANTHROPIC_BASE_URL", "/anthropic/v1", "401"), ("HTTP_PROXY", "http://10.0.0.1/", "403")])
        {
            assert!(variables[variable].contains(&format!("127.0.0.1:{port}")), "{variables:?}");
            let mut stream = UnixStream::connect(socket).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).await.unwrap();
            assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
        }
    }

    #[tokio::test]
    async fn agent_that_has_no_key_keeps_its_url() {
        let (_, variables) = open(&[("ANTHROPIC_BASE_URL", "http://127.0.0.1:4000")]).await;
        assert!(!variables.contains_key("ANTHROPIC_BASE_URL"), "{variables:?}");
        assert!(!variables.contains_key("GIT_CONFIG_COUNT"), "{variables:?}");
    }

    #[tokio::test]
    async fn proxy_is_set_in_both_spellings_unless_the_worker_uses_one() {
        let (_, variables) = open(&[]).await;
        for name in ["HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
            assert!(variables[name].starts_with("http://127.0.0.1:"), "{variables:?}");
        }
        assert_eq!(variables["no_proxy"], NO_PROXY);
        let (_, variables) = open(&[("HTTPS_PROXY", "http://proxy:3128")]).await;
        assert!(!variables.contains_key("HTTP_PROXY"), "{variables:?}");
        let (_, variables) = open(&[("HTTPS_PROXY", "http://proxy:3128"), ("NETWORK", "none")]).await;
        assert!(variables.contains_key("HTTP_PROXY"), "{variables:?}");
    }

    #[tokio::test]
    async fn key_that_cannot_be_sent_names_its_variable() {
        let environment = [("SANDBOX_ID", "box"), ("ANTHROPIC_API_KEY", "plan\u{7f}ted")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let config = Config::read(&environment, AGENTS).0.unwrap();
        let error = format!("{:#}", Network::open(&config).await.unwrap_err());
        assert!(error.contains("ANTHROPIC_API_KEY") && !error.contains("plan"), "{error}");
    }
}

//! The network of the agent: endpoints for its keys, and a proxy.
//!
//! The agent holds no key of a service. It receives a random key that is worthless elsewhere, and the URL of an endpoint
//! of the worker, which replaces the key with the real one. The repository of the task is an endpoint too, of the
//! [relay](crate::relay): git's configuration replaces the URL of the repository with that of the endpoint. Other
//! repositories get no credential.
//!
//! If the agent has a network namespace, these servers are all that it reaches, through a [bridge](egress::bridge).
//! Otherwise they listen on the machine's loopback: other processes of this machine can connect to them, but need a
//! worthless key of this sandbox; and programs that ignore `HTTP_PROXY` are not restricted by the policy.

mod proxy;
mod server;

pub use server::Place;

use crate::agents::KeyForm;
use crate::config::{Config, ServiceKeys};
use crate::event::Event;
use crate::outbox::Outbox;
use crate::secret::Secret;
use crate::tasks::Tasks;
use crate::workspace::Repository;
use anyhow::Context;
use contract::payloads::NetworkDenied;
use egress::bridge::{Bridge, forward_to};
use egress::endpoint::{Endpoint, Endpoints, Form, Handled, Handler, Key, Meter};
use egress::policy::NetworkPolicy;
use egress::proxy::{Denied, Limits, Proxy};
use http::HeaderName;
use proxy::{operators_proxy, proxy_variables};
use server::{ENDPOINTS, Listener, NAMESPACE_PORTS, PROXY, Server};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::mpsc;
use uuid::Uuid;

/// Path of the endpoint for git.
pub const GIT: &str = "/git";

/// User name with which git sends the worthless key.
const GIT_USER: &str = "agent";

/// Open servers, which do not serve yet.
#[derive(Debug)]
pub struct Network {
    /// Environment variables of the agent and of git: URLs and worthless keys.
    pub variables: Vec<(String, String)>,
    /// Environment variables of every program, with which it finds the proxy.
    pub proxy_variables: Vec<(String, String)>,
    /// The worthless keys, by the variables in which the agent has them. They are redacted like the real ones: until the
    /// sandbox ends, other processes of this machine could use them.
    pub keys: Vec<(String, Secret)>,
    /// Counts the tokens of all services, and can stop their endpoints: for budgets, which do not exist yet.
    pub meter: Meter,
    /// URL of the repository of the task, for the agent.
    pub repository: Option<String>,
    /// URL of a proxy with the policy of the agent, through which the worker itself must reach the repository.
    pub repository_proxy: Option<String>,
    git_key: Option<Key>,
    endpoints: Option<(Endpoints, Server)>,
    proxy: Option<(Proxy, mpsc::Receiver<Denied>, Server)>,
    /// The same proxy for the worker, if the other one is in a namespace.
    worker_proxy: Option<(Proxy, Server)>,
    /// Host and port of the proxy that the worker itself uses, if it is left to the agent.
    operators_proxy: Option<(String, u16, Server)>,
    /// Ports of the machine's loopback that the operator has listed.
    listed: Vec<Server>,
}

impl Network {
    /// Opens the servers that the configuration needs.
    ///
    /// # Errors
    /// If a server cannot be opened, or a key cannot be sent in a header.
    pub async fn open(config: &Config, place: Place<'_>) -> anyhow::Result<Self> {
        let mut network = Self {
            variables: Vec::new(),
            proxy_variables: Vec::new(),
            keys: Vec::new(),
            meter: Meter::default(),
            repository: None,
            repository_proxy: None,
            git_key: None,
            endpoints: None,
            proxy: None,
            worker_proxy: None,
            operators_proxy: None,
            listed: Vec::new(),
        };
        let mut own = None;
        if !config.services.is_empty() || config.repository.is_some() {
            let server = Server::open(place, ENDPOINTS).await?;
            // In a namespace this is not an address of the machine, from which the proxy connects.
            own = Some(server.address).filter(|_| place == Place::Loopback);
            let base = format!("http://{}", server.address);
            let mut endpoints = Vec::new();
            for service in &config.services {
                endpoints.push(network.service(service, &base)?);
            }
            if let Some(repository) = &config.repository {
                network.git(repository, &base)?;
            }
            let endpoints = Endpoints::new(endpoints).context("cannot read the root certificates")?;
            network.endpoints = Some((endpoints, server));
        }
        if let Some(policy) = &config.network {
            let server = Server::open(place, PROXY).await?;
            network.proxy_variables = proxy_variables(&format!("http://{}", server.address));
            let (proxy, denied) = Proxy::new(policy.clone(), Limits::default());
            if config.repository.as_ref().is_some_and(Repository::is_within_policy) {
                network.open_repository_proxy(place, &server, &proxy).await?;
            }
            network.proxy = Some((proxy.with_own(own), denied, server));
            if let (Place::Namespace(directory), NetworkPolicy::Allowlist(list)) = (place, policy) {
                let ports = list
                    .loopback_ports()
                    .filter(|port| NAMESPACE_PORTS.iter().all(|(_, reserved)| reserved != port));
                for port in BTreeSet::from_iter(ports) {
                    network.listed.push(Server::on_socket(directory, &format!("port-{port}"), port)?);
                }
            }
        } else if matches!(place, Place::Namespace(_))
            && let Some(mut url) = operators_proxy(&config.confinement.environment)?
        {
            let server = Server::open(place, PROXY).await?;
            let host = url.host_str().context("the URL of the proxy has no host")?.to_owned();
            let port = url.port_or_known_default().unwrap_or(80);
            let replaced =
                url.set_ip_host(server.address.ip()).and_then(|()| url.set_port(Some(server.address.port())));
            replaced.map_err(|()| anyhow::anyhow!("the URL of the proxy is invalid"))?;
            network.proxy_variables = proxy_variables(url.as_str().trim_end_matches('/'));
            network.operators_proxy = Some((host, port, server));
        }
        Ok(network)
    }

    /// What a bridge in the agent's network namespace connects. The namespace has the servers on the same ports.
    pub fn bridge(&self, directory: &Path) -> Bridge {
        let endpoints = self.endpoints.iter().map(|(_, server)| server);
        let proxy = self.proxy.iter().map(|(_, _, server)| server);
        let operators_proxy = self.operators_proxy.iter().map(|(_, _, server)| server);
        let servers = endpoints.chain(proxy).chain(operators_proxy).chain(&self.listed);
        let ports = servers.filter_map(|server| match &server.listener {
            Listener::Loopback(_) => None,
            Listener::Socket(_, path) => Some((server.address.port(), path.clone())),
        });
        Bridge { ports: ports.collect(), inbound: Some(directory.join("inbound")) }
    }

    /// Serves until the tasks are dropped. Denied connections become events. `git` responds to requests for the repository.
    pub fn serve(self, tasks: &mut Tasks, outbox: Outbox, git: Option<Arc<dyn Handler>>) {
        if let Some((endpoints, server)) = self.endpoints {
            let handled =
                self.git_key.zip(git).map(|(key, handler)| Handled { prefix: GIT.to_owned(), key, handler });
            let endpoints = endpoints.with_handled(handled);
            let name = "serving endpoints";
            match server.listener {
                Listener::Loopback(listener) => tasks.spawn(name, endpoints.serve(listener)),
                Listener::Socket(listener, _) => tasks.spawn(name, endpoints.serve(listener)),
            }
        }
        if let Some((proxy, mut denied, server)) = self.proxy {
            let name = "serving the proxy";
            match server.listener {
                Listener::Loopback(listener) => tasks.spawn(name, proxy.serve(listener)),
                Listener::Socket(listener, _) => tasks.spawn(name, proxy.serve(listener)),
            }
            tasks.spawn("reporting denied connections", async move {
                while let Some(denied) = denied.recv().await {
                    outbox.emit(Event::worker(event(denied)));
                }
            });
        }
        if let Some((proxy, server)) = self.worker_proxy
            && let Listener::Loopback(listener) = server.listener
        {
            tasks.spawn("serving the proxy for the worker", proxy.serve(listener));
        }
        if let Some((host, port, server)) = self.operators_proxy
            && let Listener::Socket(listener, _) = server.listener
        {
            tasks.spawn("forwarding to the operator's proxy", forward_to(listener, host, port));
        }
        for server in self.listed {
            if let Listener::Socket(listener, _) = server.listener {
                let (host, port) = ("localhost".to_owned(), server.address.port());
                tasks.spawn("forwarding to a listed port", forward_to(listener, host, port));
            }
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
    fn git(&mut self, repository: &Repository, base: &str) -> anyhow::Result<()> {
        let presented = worthless_key();
        let form = Form::Basic { user: GIT_USER.to_owned() };
        let url = format!("{base}{GIT}");
        let header = format!("Authorization: {}", form.value(&presented));
        let settings = [
            (format!("url.{url}.insteadOf"), repository.url.clone()),
            (format!("http.{url}.extraHeader"), header),
        ];
        self.variables.push(("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string()));
        for (index, (key, value)) in settings.into_iter().enumerate() {
            self.variables.push((format!("GIT_CONFIG_KEY_{index}"), key));
            self.variables.push((format!("GIT_CONFIG_VALUE_{index}"), value));
        }
        self.variables.push(("GIT_TERMINAL_PROMPT".to_owned(), "0".to_owned()));
        let secret = Secret::new(presented.as_str());
        // There is no real key: the relay has its own way to the host.
        self.git_key = Some(key("GIT", form, &presented, &secret)?);
        self.keys.push(("GIT".to_owned(), secret));
        self.repository = Some(url);
        Ok(())
    }

    /// The author of a task chooses its repository, so without a credential the worker reaches only what the agent may.
    async fn open_repository_proxy(
        &mut self,
        place: Place<'_>,
        server: &Server,
        proxy: &Proxy,
    ) -> anyhow::Result<()> {
        let address = match place {
            Place::Loopback => server.address,
            Place::Namespace(_) => {
                let server = Server::open(Place::Loopback, PROXY).await?;
                let address = server.address;
                self.worker_proxy = Some((proxy.clone(), server));
                address
            }
        };
        self.repository_proxy = Some(format!("http://{address}"));
        Ok(())
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

fn worthless_key() -> String {
    format!("sunaba-{}", Uuid::new_v4().simple())
}

fn key(variable: &str, form: Form, presented: &str, real: &Secret) -> anyhow::Result<Key> {
    Key::new(form, presented, real.reveal())
        .with_context(|| format!("{variable} contains characters that cannot be sent in an HTTP header"))
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
    use crate::network::proxy::NO_PROXY;
    use std::collections::BTreeMap;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, UnixStream};

    async fn open_at(place: Place<'_>, variables: &[(&str, &str)]) -> (Network, BTreeMap<String, String>) {
        let environment = [("SANDBOX_ID", "box")].iter().chain(variables);
        let environment =
            environment.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (config, problems) = Config::read(&environment, AGENTS);
        let config = config.unwrap_or_else(|| panic!("{problems:?}"));
        let network = Network::open(&config, place).await.unwrap();
        let variables = network.variables.iter().chain(&network.proxy_variables).cloned().collect();
        (network, variables)
    }

    async fn open(variables: &[(&str, &str)]) -> (Network, BTreeMap<String, String>) {
        open_at(Place::Loopback, variables).await
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
        let folder = tempfile::tempdir().unwrap();
        let settings = [("ANTHROPIC_API_KEY", "planted-1"), ("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")];
        let (network, variables) = open_at(Place::Namespace(folder.path()), &settings).await;
        let bridge = network.bridge(folder.path());
        let plane = FakePlane::start(0).await;
        let mut tasks = Tasks::default();
        network.serve(&mut tasks, crate::outbox::tests::open(&plane, &folder.path().join("outbox")), None);
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
    async fn service_without_a_key_is_reached_through_an_endpoint_too() {
        let (network, variables) = open(&[("ANTHROPIC_BASE_URL", "http://127.0.0.1:4000")]).await;
        let url = &variables["ANTHROPIC_BASE_URL"];
        assert!(url.ends_with("/anthropic") && !url.contains(":4000"), "{url}");
        assert!(network.keys.is_empty(), "{network:?}");
        let (_, variables) = open(&[]).await;
        assert!(!variables.contains_key("ANTHROPIC_BASE_URL"), "{variables:?}");
        assert!(!variables.contains_key("GIT_CONFIG_COUNT"), "{variables:?}");
    }

    #[tokio::test]
    async fn every_repository_is_an_endpoint_and_those_without_a_token_are_within_the_policy() {
        let folder = tempfile::tempdir().unwrap();
        for place in [Place::Loopback, Place::Namespace(folder.path())] {
            let repository = ("REPOSITORY_URL", "https://git.example/acme/shop.git");
            let (network, variables) = open_at(place, &[repository]).await;
            assert_eq!(variables["GIT_CONFIG_VALUE_0"], "https://git.example/acme/shop.git");
            let url = network.repository.clone().unwrap();
            assert_eq!(variables["GIT_CONFIG_KEY_0"], format!("url.{url}.insteadOf"));
            assert!(network.repository_proxy.is_some(), "the author of a task chooses the repository");
            drop(network);
            remove_sockets(folder.path());
            for direct in [
                &[repository, ("GITHUB_TOKEN", "planted-1"), ("GITHUB_HOST", "git.example")][..],
                &[repository, ("GIT_ACCESS", "plane")],
                &[("REPOSITORY_URL", "/srv/shop.git")],
            ] {
                let (network, _) = open_at(place, direct).await;
                assert_eq!(
                    (network.repository.is_some(), &network.repository_proxy),
                    (true, &None),
                    "{direct:?}"
                );
                remove_sockets(folder.path());
            }
        }
    }

    fn remove_sockets(folder: &Path) {
        for entry in std::fs::read_dir(folder).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }

    #[tokio::test]
    async fn proxy_of_the_operator_is_reached_from_a_namespace() {
        let folder = tempfile::tempdir().unwrap();
        let operators = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://user:pass@{}", operators.local_addr().unwrap());
        let (network, variables) =
            open_at(Place::Namespace(folder.path()), &[("HTTPS_PROXY", url.as_str())]).await;
        let bridge = network.bridge(folder.path());
        let [(port, socket)] = bridge.ports.as_slice() else { panic!("{bridge:?}") };
        assert_eq!(variables["HTTPS_PROXY"], format!("http://user:pass@127.0.0.1:{port}"));
        let plane = FakePlane::start(0).await;
        let mut tasks = Tasks::default();
        network.serve(&mut tasks, crate::outbox::tests::open(&plane, &folder.path().join("outbox")), None);
        let mut client = UnixStream::connect(socket).await.unwrap();
        let (mut server, _) = operators.accept().await.unwrap();
        client.write_all(b"hello").await.unwrap();
        let mut received = [0; 5];
        server.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"hello");
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
        let error = format!("{:#}", Network::open(&config, Place::Loopback).await.unwrap_err());
        assert!(error.contains("ANTHROPIC_API_KEY") && !error.contains("plan"), "{error}");
    }
}

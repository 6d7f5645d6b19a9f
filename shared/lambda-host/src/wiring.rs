//! Builds the plane from the configuration: SDK clients, and keys from Secrets Manager.

use crate::config::{AwsConfig, Config, KeyConfig};
use app::Clock;
use app::clock::SystemClock;
use app::ids::RandomIds;
use app::orchestration::CodeHosts;
use aws_credential_types::Credentials;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{Region, SharedHttpClient};
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use code_hosts::{CODE_HOSTS, Environment};
use edge::auth::{Authenticator, Keys, MIN_SECRET_CHARS, MIN_TOKEN_CHARS, Operators, SigningKey};
use edge::{Bindings, Plane};
use futures_util::future::try_join_all;
use lambda_runtime::Error;
use std::sync::Arc;
use std::time::Duration;
use store::{Bus, JobQueue, Mailboxes, Push, Store};

/// Timeout of one attempt of an SDK call.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(1500);
/// Timeout of an SDK call with its retries: a request makes up to three calls and must finish before the ten-second timeout
/// of the function. Clients retry a 503.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout of a request to a code host: a function that calls one makes several of them within its own 29 seconds.
const CODE_HOST_TIMEOUT: Duration = Duration::from_secs(8);
/// The SDK's default is up to a second.
const INITIAL_BACKOFF: Duration = Duration::from_millis(50);

/// Creates only the clients that the function has permission for.
pub async fn wire(config: &Config) -> Result<Arc<Plane>, Error> {
    let clients = Clients::new(&config.aws);
    let mut settings = config.settings.clone();
    let mut providers = None;
    if let Some(configured) = &config.providers {
        let (wired, worker_variables) = crate::providers::wire(config, configured, &clients).await?;
        providers = Some(wired);
        settings.orchestration.worker_variables = worker_variables;
    }
    let keys = clients.keys(config.keys.as_ref(), config.worker_key.as_ref()).await?;
    let clock = Arc::new(SystemClock);
    let authenticator = Authenticator::new(&keys, clock.clone());
    let bindings = Bindings {
        push: config.sockets_url.as_deref().map(|url| clients.push(url)),
        mailboxes: config
            .mailboxes_url
            .as_deref()
            .map(|url| clients.mailboxes(url, config.dead_letters_arn.as_deref())),
        socket_jobs: config.socket_jobs_url.as_deref().map(|url| clients.job_queue(url)),
        bus: config.bus.as_deref().map(|name| clients.bus(name)),
        orchestration_jobs: config.orchestration_jobs_url.as_deref().map(|url| clients.job_queue(url)),
        code_hosts: providers.is_some().then(|| code_hosts(clock.clone())),
        providers,
    };
    let store = clients.store(&config.table);
    Ok(Arc::new(Plane::new(store, bindings, authenticator, clock, Arc::new(RandomIds), settings)))
}

/// The code hosts whose credentials are among the variables of workers.
fn code_hosts(clock: Arc<SystemClock>) -> CodeHosts {
    let mut environment = Environment::new(Arc::new(move || clock.now().as_secs()));
    environment.timeout = CODE_HOST_TIMEOUT;
    CodeHosts::new(CODE_HOSTS.to_vec(), environment)
}

/// Creates clients that share connections and credentials.
pub(crate) struct Clients<'a> {
    aws: &'a AwsConfig,
    http: SharedHttpClient,
    credentials: Credentials,
}

/// The same configuration for every service, each of which has its own builder type.
macro_rules! client {
    ($clients:expr, $sdk:ident, $endpoint:expr) => {{
        let Clients { aws, http, credentials } = $clients;
        let endpoint: Option<&str> = $endpoint.or(aws.endpoint_url.as_deref());
        let mut config = $sdk::Config::builder()
            .behavior_version_latest()
            .region(Region::new(aws.region.clone()))
            .credentials_provider(credentials.clone())
            .http_client(http.clone())
            .retry_config(RetryConfig::standard().with_initial_backoff(INITIAL_BACKOFF))
            .timeout_config(
                TimeoutConfig::builder()
                    .operation_attempt_timeout(ATTEMPT_TIMEOUT)
                    .operation_timeout(OPERATION_TIMEOUT)
                    .build(),
            );
        if let Some(endpoint) = endpoint {
            config = config.endpoint_url(endpoint);
        }
        $sdk::Client::from_conf(config.build())
    }};
}

impl<'a> Clients<'a> {
    pub(crate) fn new(aws: &'a AwsConfig) -> Self {
        let tls = Provider::Rustls(CryptoMode::AwsLc);
        Self {
            aws,
            http: aws_smithy_http_client::Builder::new().tls_provider(tls).build_https(),
            credentials: Credentials::new(
                aws.access_key.clone(),
                aws.secret_key.clone(),
                aws.session_token.clone(),
                None,
                "Lambda",
            ),
        }
    }

    fn store(&self, table: &str) -> Store {
        Store::new(client!(self, aws_sdk_dynamodb, None), table)
    }

    fn push(&self, url: &str) -> Push {
        Push::new(client!(self, aws_sdk_apigatewaymanagement, Some(url)))
    }

    fn mailboxes(&self, url_prefix: &str, dead_letters_arn: Option<&str>) -> Mailboxes {
        let mailboxes = Mailboxes::new(client!(self, aws_sdk_sqs, None), url_prefix);
        match dead_letters_arn {
            Some(arn) => mailboxes.with_dead_letters(arn),
            None => mailboxes,
        }
    }

    fn job_queue(&self, url: &str) -> JobQueue {
        JobQueue::new(client!(self, aws_sdk_sqs, None), url)
    }

    fn bus(&self, name: &str) -> Bus {
        Bus::new(client!(self, aws_sdk_eventbridge, None), name)
    }

    /// Reads a secret, which must have at least `min_chars` characters.
    pub(crate) async fn secret(
        &self,
        id: Option<&String>,
        min_chars: usize,
    ) -> Result<Option<String>, Error> {
        secret(&client!(self, aws_sdk_secretsmanager, None), id, min_chars).await
    }

    /// Reads all secrets concurrently, because the first request waits for them.
    async fn keys(&self, config: Option<&KeyConfig>, worker_key: Option<&String>) -> Result<Keys, Error> {
        let client = client!(self, aws_sdk_secretsmanager, None);
        let operators = config.and_then(|config| config.operators.as_ref());
        let secrets = [
            (worker_key, MIN_SECRET_CHARS),
            (operators, MIN_TOKEN_CHARS),
            (config.and_then(|config| config.jwt_secret.as_ref()), MIN_SECRET_CHARS),
        ];
        let secrets = secrets.map(|(id, min_chars)| secret(&client, id, min_chars));
        let mut secrets = try_join_all(secrets).await?.into_iter();
        let mut next = || secrets.next().flatten();
        let worker_signing_key = next().map(|secret| SigningKey::of_secret(&secret));
        let operators =
            next().map_or(Ok(Operators::default()), |text| Operators::parse(&text)).map_err(|why| {
                format!("the secret {} is wrong: {why}", operators.map(String::as_str).unwrap_or_default())
            })?;
        let keys = Keys { worker_signing_key, operators, user_secret: next(), ..Keys::none() };
        let Some(config) = config else { return Ok(keys) };
        if let Some(signing) = &keys.worker_signing_key
            && signing.public() != config.worker_public_key
        {
            // Workers would get tokens that no other function accepts.
            let public = signing.public();
            return Err(format!(
                "SUNABA_WORKER_PUBLIC_KEY does not belong to the secret with the private key, whose public key is {public}"
            )
            .into());
        }
        Ok(Keys {
            worker_public_key: Some(config.worker_public_key),
            jwks_url: config.jwks_url.clone(),
            issuer: config.issuer.clone(),
            audience: config.audience.clone(),
            ..keys
        })
    }
}

async fn secret(
    client: &aws_sdk_secretsmanager::Client,
    id: Option<&String>,
    min_chars: usize,
) -> Result<Option<String>, Error> {
    let Some(id) = id else { return Ok(None) };
    let response = client.get_secret_value().secret_id(id).send().await;
    let response = response.map_err(|error| {
        let error = error.into_service_error();
        format!("the secret {id} cannot be read: {}", app::error::chain(&error))
    })?;
    // Trimmed, because a secret that comes from a file often ends with a newline.
    match response
        .secret_string
        .map(|secret| secret.trim().to_owned())
        .filter(|secret| secret.len() >= min_chars)
    {
        Some(secret) => Ok(Some(secret)),
        None => Err(format!("the secret {id} must have at least {min_chars} characters").into()),
    }
}

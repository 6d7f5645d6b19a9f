//! Who makes the sandboxes of this plane, and what whoever starts it should know of that.

use crate::config::sandboxes::{Account, Plan};
use crate::config::{Dev, Surroundings};
use anyhow::Context;
use app::orchestration::{Orchestration, Providers};
use providers::SandboxProvider;
use providers::daytona::{self, Daytona};
use providers::process::{self, Process};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Where sandboxes on this machine are, in the data folder.
const FOLDER: &str = "sandboxes";
/// The agent that needs nobody.
const STAND_IN: &str = "scripted:hello";
/// How long Daytona may take for one answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Those who make sandboxes, and how.
#[derive(Debug)]
pub struct Crew {
    /// Those who make sandboxes.
    pub providers: Providers,
    /// How tasks become sandboxes.
    pub orchestration: Orchestration,
    /// What whoever starts the plane should know, in sentences.
    pub about: Vec<String>,
}

/// Makes them. `address` is where the plane really listens.
pub fn crew(dev: &Dev, plan: Plan, address: SocketAddr) -> anyhow::Result<Crew> {
    let (surroundings, plane) = (dev.surroundings()?, dev.plane_name()?);
    let local: Arc<dyn SandboxProvider> = Arc::new(on_this_machine(dev, &plan, &surroundings, &plane)?);
    let away =
        plan.daytona.clone().map(|account| Arc::new(at_daytona(account, &plane)) as Arc<dyn SandboxProvider>);
    let chosen = away.as_ref().filter(|_| plan.provider == "daytona").unwrap_or(&local).clone();
    let agent = plan
        .agent
        .clone()
        .unwrap_or_else(|| if surroundings.has_claude { "claude".to_owned() } else { STAND_IN.to_owned() });
    let callback_url =
        plan.callback_url.clone().unwrap_or_else(|| format!("http://{}", as_seen_from_here(address)));
    let mut about = vec![
        format!("Sandboxes are made by {}. {}", chosen.name(), chosen.isolation()),
        about_agent(&plan, &surroundings, &agent),
    ];
    if chosen.name() == "daytona" && plan.callback_url.is_none() {
        about.push(format!(
            "Sandboxes at Daytona will look for this plane at {callback_url}: say with --callback-url where they can reach it."
        ));
    }
    about.push("Sandboxes go on when this plane is stopped, and the next start finds them.".to_owned());
    let providers = Providers::new(away.into_iter().chain([local]));
    let orchestration = Orchestration {
        plane,
        known_providers: Some(providers.all().map(|provider| provider.name().to_owned()).collect()),
        default_agent: agent,
        callback_url,
        worker_variables: surroundings.keys,
        ..plan.orchestration
    };
    Ok(Crew { providers, orchestration, about })
}

fn on_this_machine(
    dev: &Dev,
    plan: &Plan,
    surroundings: &Surroundings,
    plane: &str,
) -> anyhow::Result<Process> {
    let mut options = process::Options::new(dev.data.join(FOLDER), plane, surroundings.worker.clone());
    options.environment = surroundings.environment.clone();
    options.isolation = plan.isolation;
    Process::new(options).context("sandboxes on this machine cannot be made")
}

fn at_daytona(account: Account, plane: &str) -> Daytona {
    Daytona::new(daytona::Options {
        api_url: account.api_url,
        api_key: account.api_key,
        organization: None,
        target: account.target,
        plane: plane.to_owned(),
        worker: account.worker,
        timeout: TIMEOUT,
    })
}

fn about_agent(plan: &Plan, surroundings: &Surroundings, agent: &str) -> String {
    let is_stand_in = plan.agent.is_none() && agent == STAND_IN;
    let keys = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"];
    if is_stand_in {
        return format!(
            "The agent is {STAND_IN}, which plays a script and needs no model: there is no `claude` on the PATH, and \
             neither CLAUDE_PATH nor --agent names one."
        );
    }
    if agent == "claude" && !keys.iter().any(|key| surroundings.keys.contains_key(*key)) {
        return "The agent is claude, and it has no key: set ANTHROPIC_API_KEY, or CLAUDE_CODE_OAUTH_TOKEN (`claude \
                setup-token` makes one), or take another with --agent."
            .to_owned();
    }
    format!("The agent is {agent}, unless a ticket names another.")
}

/// Whoever listens everywhere is also found here.
fn as_seen_from_here(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), address.port()),
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_find_a_plane_that_listens_everywhere() {
        for (listens, found) in [
            ("0.0.0.0:18000", "127.0.0.1:18000"),
            ("[::]:1", "[::1]:1"),
            ("127.0.0.1:5", "127.0.0.1:5"),
            ("192.0.2.7:9", "192.0.2.7:9"),
        ] {
            assert_eq!(as_seen_from_here(listens.parse().unwrap()), found.parse().unwrap());
        }
    }
}

//! Tokens of a GitHub App.

use crate::support::{Fixture, Kind, NAME, environment, failed, open_in};
use code_hosts::{CheckState, Reason, Status};
use kit::github::{App, Fault, Faults, Operation, Options};
use serde_json::json;

async fn fixture() -> Fixture {
    Fixture::new(Kind::GitHubApp).await
}

/// Installs another App and uses it.
fn with_app(fixture: &mut Fixture, app: App) {
    fixture.variables.insert("GITHUB_APP_ID", app.id().to_string());
    fixture.variables.insert("GITHUB_APP_PRIVATE_KEY", app.private_key().to_owned());
    fixture.fake().install(app);
}

#[tokio::test]
async fn tokens_are_for_one_repository_and_have_the_least_permissions() {
    let fixture = fixture().await;
    fixture.host.branches().await.unwrap();
    fixture.host.git_access().await.unwrap();
    let requests = fixture.fake().requests();
    let bodies: Vec<_> = requests
        .iter()
        .filter(|request| request.operation == Operation::CreateToken)
        .map(|request| request.body.clone())
        .collect();
    let api = json!({"contents": "write", "pull_requests": "write", "checks": "write", "statuses": "read"});
    let expected = [
        json!({"repositories": ["shop"], "permissions": api}),
        json!({"repositories": ["shop"], "permissions": {"contents": "write"}}),
    ];
    assert_eq!(bodies, expected);
}

#[tokio::test]
async fn token_is_used_until_shortly_before_it_expires() {
    let fixture = fixture().await;
    let environment = environment(fixture.fake());
    let open = || open_in(&environment, fixture.fake(), &fixture.variables).unwrap();
    let token = async || open().git_access().await.unwrap();
    let first = token().await;
    let lifetime = first.expires_at_secs.unwrap() - fixture.fake().clock()();
    assert!((3590..=3600).contains(&lifetime), "{lifetime}");
    fixture.fake().advance_secs(lifetime - 310);
    assert_eq!(token().await, first, "the same token, for every value of one plane");
    assert_eq!(fixture.fake().calls(Operation::CreateToken), 1);
    fixture.fake().advance_secs(20);
    let second = token().await;
    assert_ne!(second.token, first.token);
    assert_eq!(fixture.fake().calls(Operation::CreateToken), 2);
}

#[tokio::test]
async fn revoked_token_is_replaced() {
    let fixture = fixture().await;
    fixture.host.branches().await.unwrap();
    fixture.fake().revoke("");
    assert_eq!(fixture.host.branches().await.unwrap().len(), 1);
    assert_eq!(fixture.fake().calls(Operation::CreateToken), 2);
    let fault = Fault::Rejected { status: 401, message: "Bad credentials".to_owned() };
    fixture.fake().set_faults(Faults::none().times(2, Operation::Branches, fault));
    failed(fixture.host.branches().await, Reason::Unauthorized);
}

#[tokio::test]
async fn token_is_only_for_those_who_have_the_key() {
    let mut fixture = fixture().await;
    let environment = environment(fixture.fake());
    open_in(&environment, fixture.fake(), &fixture.variables).unwrap().branches().await.unwrap();
    let other = App::new(8, &[]);
    fixture.variables.insert("GITHUB_APP_PRIVATE_KEY", other.private_key().to_owned());
    let intruder = open_in(&environment, fixture.fake(), &fixture.variables).unwrap();
    failed(intruder.branches().await, Reason::Unauthorized);
    failed(intruder.git_access().await, Reason::Unauthorized);
}

#[tokio::test]
async fn missing_installation_or_permission_is_named() {
    let mut fixture = fixture().await;
    with_app(&mut fixture, App::new(8, &["acme/other"]));
    let failure = failed(fixture.reopened().check(None).await, Reason::NotFound);
    assert!(failure.message.contains("not installed") && failure.message.contains(NAME), "{failure}");
    let reader = App::new(9, &[NAME]).with_permissions(&[("contents", "read"), ("checks", "write")]);
    with_app(&mut fixture, reader);
    failed(fixture.reopened().check(None).await, Reason::PushForbidden);
    failed(fixture.reopened().git_access().await, Reason::PushForbidden);
}

#[tokio::test]
async fn key_with_written_line_breaks_is_accepted() {
    let mut fixture = fixture().await;
    let key = fixture.variables["GITHUB_APP_PRIVATE_KEY"].replace('\n', "\\n");
    fixture.variables.insert("GITHUB_APP_PRIVATE_KEY", key);
    fixture.reopened().check(None).await.unwrap();
    fixture.variables.insert("GITHUB_APP_PRIVATE_KEY", "no key".to_owned());
    let failure = failed(
        open_in(&environment(fixture.fake()), fixture.fake(), &fixture.variables),
        Reason::Unauthorized,
    );
    assert!(failure.message.contains("GITHUB_APP_PRIVATE_KEY"), "{failure}");
}

#[tokio::test]
async fn app_is_used_instead_of_a_token() {
    let mut fixture = fixture().await;
    fixture.variables.insert("GITHUB_TOKEN", "ghp_unused".to_owned());
    fixture.reopened().branches().await.unwrap();
    let requests = fixture.fake().requests();
    assert!(requests.iter().all(|request| request.credential.as_deref() != Some("ghp_unused")));
}

#[tokio::test]
async fn progress_and_result_are_one_check_run() {
    let fixture = fixture().await;
    let main = fixture.commit("main");
    // A run of the same name by another App is not ours.
    fixture.fake().add_check_run(NAME, &main, "sunaba", "failure");
    let report = |state| Status { name: "sunaba".to_owned(), state, summary: "Text".to_owned(), url: None };
    for state in [CheckState::Pending, CheckState::Pending, CheckState::Success, CheckState::Success] {
        fixture.host.report_status(&main, &report(state)).await.unwrap();
    }
    assert_eq!(fixture.fake().calls(Operation::CreateCheckRun), 1);
    assert_eq!(fixture.fake().calls(Operation::UpdateCheckRun), 3);
    assert_eq!(fixture.fake().calls(Operation::CreateStatus), 0);
    assert_eq!(fixture.host.checks(&main).await.unwrap().len(), 2);
}

#[tokio::test]
async fn lost_response_to_a_token_request_is_transient() {
    let fixture = Fixture::with_options(Kind::GitHubApp, Options::default()).await;
    for operation in [Operation::Installation, Operation::CreateToken] {
        fixture.fake().set_faults(Faults::none().once(operation, Fault::ResponseLost));
        failed(fixture.host.branches().await, Reason::Unreachable);
    }
    assert!(fixture.host.branches().await.is_ok());
}

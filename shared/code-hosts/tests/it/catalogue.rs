//! The repositories of a credential at GitHub.

use crate::support::{Fixture, Kind, NAME, TOKEN, environment, failed};
use code_hosts::catalogue::Listing;
use code_hosts::github::GITHUB;
use code_hosts::{Failure, Reason};
use kit::github::{App, Fault, Faults, Operation, Options, Token};

/// Repositories of acme, with pages of two.
async fn fixture(kind: Kind) -> Fixture {
    let fixture = Fixture::with_options(kind, Options { page: 2, ..Options::default() }).await;
    for name in ["acme/docs", "acme/shop-tools", "other/archive", "other/shop"] {
        fixture.fake().create_repository(name);
    }
    fixture.fake().configure("other/archive", |settings| settings.archived = true);
    fixture
}

async fn list(fixture: &Fixture, query: &str, cursor: Option<&str>) -> Result<Listing, Failure> {
    let value = |name: &str| fixture.variables.get(name).cloned();
    let catalogue = (GITHUB.catalogue)(&value, &environment(fixture.fake())).unwrap().unwrap();
    catalogue.list(query, cursor).await
}

fn names(fixture: &Fixture, listing: &Listing) -> Vec<String> {
    let below = |name: &str| name.strip_prefix(fixture.fake().url()).unwrap().to_owned();
    listing.entries.iter().map(|entry| below(&entry.name)).collect()
}

#[tokio::test]
async fn repositories_of_a_token_are_found_by_a_part_of_their_name() {
    let fixture = fixture(Kind::GitHubToken).await;
    let all = list(&fixture, "", None).await.unwrap();
    let expected = ["/acme/docs.git", "/acme/shop.git", "/acme/shop-tools.git", "/other/shop.git"];
    assert_eq!(names(&fixture, &all), expected);
    assert_eq!(all.next, None);
    assert_eq!(all.entries[1].default_branch.as_deref(), Some("main"));
    let shops = list(&fixture, "ACME/shop", None).await.unwrap();
    assert_eq!(names(&fixture, &shops), ["/acme/shop.git", "/acme/shop-tools.git"]);
}

#[tokio::test]
async fn one_call_reads_a_limited_number_of_pages() {
    let fixture = fixture(Kind::GitHubToken).await;
    for number in 0..10 {
        fixture.fake().create_repository(&format!("zoo/animal-{number}"));
    }
    let first = list(&fixture, "animal-9", None).await.unwrap();
    assert_eq!((names(&fixture, &first).len(), fixture.fake().calls(Operation::UserRepositories)), (0, 5));
    let second = list(&fixture, "animal-9", first.next.as_deref()).await.unwrap();
    assert_eq!((names(&fixture, &second), second.next), (vec!["/zoo/animal-9.git".to_owned()], None));
    failed(list(&fixture, "", Some("elsewhere")).await, Reason::Invalid);
}

#[tokio::test]
async fn repositories_that_cannot_be_pushed_to_are_left_out() {
    let mut fixture = fixture(Kind::GitHubToken).await;
    fixture.fake().allow(Token::read_only("ghp_reader"));
    fixture.variables.insert("GITHUB_TOKEN", "ghp_reader".to_owned());
    assert_eq!(list(&fixture, "", None).await.unwrap(), Listing::default());
}

#[tokio::test]
async fn app_lists_what_it_is_installed_for_and_can_only_read_there() {
    let mut fixture = fixture(Kind::GitHubApp).await;
    let app = App::new(8, &[NAME, "other/shop"]);
    fixture.variables.insert("GITHUB_APP_ID", app.id().to_string());
    fixture.variables.insert("GITHUB_APP_PRIVATE_KEY", app.private_key().to_owned());
    fixture.fake().install(app);
    let found = list(&fixture, "", None).await.unwrap();
    assert_eq!(names(&fixture, &found), ["/acme/shop.git", "/other/shop.git"]);
    let requests = fixture.fake().requests();
    let created = requests.iter().find(|request| request.operation == Operation::CreateToken).unwrap();
    assert_eq!(created.body, serde_json::json!({"permissions": {"metadata": "read"}}));
}

#[tokio::test]
async fn failure_to_list_names_no_secret_and_no_repository() {
    let fixture = fixture(Kind::GitHubToken).await;
    let message = "Bad credentials: {credential}".to_owned();
    let fault = Fault::Rejected { status: 401, message };
    fixture.fake().set_faults(Faults::none().once(Operation::UserRepositories, fault));
    let failure = failed(list(&fixture, "", None).await, Reason::Unauthorized);
    assert!(!failure.message.contains(TOKEN) && !failure.message.contains(" of /"), "{failure}");
}

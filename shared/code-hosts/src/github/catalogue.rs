//! The repositories of a token, or of all installations of an App.
//!
//! GitHub's search for names finds only what it has indexed, and needs the owners. So the lists are read page by page and
//! filtered here, a limited number of pages for each call.

use super::address::{self, Address};
use super::branches::unexpected;
use super::credential::Credential;
use super::http::{Call, Http};
use crate::catalogue::{Catalogue, Entry, Listing, PAGE_SIZE};
use crate::{Environment, Failure, HostFuture, Reason};
use reqwest::Method;
use serde_json::Value;

/// Maximum number of pages that are read for one call.
const MAX_PAGES: usize = 5;

/// Stands for the one list of a token, where an App has a list for each installation.
const OF_TOKEN: u64 = 0;

/// What a credential reaches.
#[derive(Debug)]
pub(super) struct Repositories {
    http: Http,
    /// `GITHUB_HOST`.
    host: Option<String>,
    /// `GITHUB_API_URL`.
    api_url: Option<String>,
}

/// A page of one list. Written as `<list>.<page>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    list: u64,
    page: u64,
}

impl Catalogue for Repositories {
    fn list<'a>(&'a self, query: &'a str, cursor: Option<&'a str>) -> HostFuture<'a, Listing> {
        Box::pin(self.search(query, cursor))
    }
}

impl Repositories {
    pub(super) fn new(
        host: Option<String>,
        api_url: Option<String>,
        credential: Credential,
        environment: &Environment,
    ) -> Result<Self, Failure> {
        let of_host = Address::of_host(host.as_deref(), api_url.as_deref())?;
        Ok(Self { http: Http::new(&of_host, credential, environment), host, api_url })
    }

    async fn search(&self, query: &str, cursor: Option<&str>) -> Result<Listing, Failure> {
        let start = cursor.map_or(Ok(Position { list: OF_TOKEN, page: 1 }), parse)?;
        let mut lists = self.lists().await?;
        lists.retain(|list| *list >= start.list);
        let is_in_first = lists.first() == Some(&start.list);
        let (mut lists, mut page) = (lists.into_iter().peekable(), if is_in_first { start.page } else { 1 });
        let (query, mut entries) = (query.to_lowercase(), Vec::new());
        for _ in 0..MAX_PAGES {
            let Some(&list) = lists.peek() else { return Ok(Listing { entries, next: None }) };
            let (found, is_last) = self.page(Position { list, page }).await?;
            entries.extend(found.into_iter().filter(|entry| entry.name.to_lowercase().contains(&query)));
            page += 1;
            if is_last {
                lists.next();
                page = 1;
            }
            if entries.len() >= PAGE_SIZE {
                break;
            }
        }
        let next = lists.peek().map(|list| format!("{list}.{page}"));
        Ok(Listing { entries, next })
    }

    /// The lists that there are, sorted.
    async fn lists(&self) -> Result<Vec<u64>, Failure> {
        let Some(app) = self.http.app() else { return Ok(vec![OF_TOKEN]) };
        let jwt = app.jwt(self.http.now_secs())?;
        let (mut found, mut next) = (Vec::new(), Some("/app/installations?per_page=100".to_owned()));
        while let Some(path) = next.take() {
            let call = Call::new(Method::GET, &path, "listing the installations of the App");
            let answer = self.http.send_with(&jwt, &call).await?;
            let page = answer.body.as_array().ok_or_else(|| unexpected("a list of installations"))?;
            let active = page.iter().filter(|installation| !installation["suspended_at"].is_string());
            found.extend(active.filter_map(|installation| installation["id"].as_u64()));
            next = answer.next;
        }
        found.sort_unstable();
        Ok(found)
    }

    /// The repositories of a page to which the credential may push, and whether it is the last one.
    async fn page(&self, position: Position) -> Result<(Vec<Entry>, bool), Failure> {
        let Position { list, page } = position;
        let doing = "listing repositories";
        let answer = match self.http.app() {
            // The person probably wants what they have worked on recently.
            None => {
                let path = format!("/user/repos?sort=pushed&per_page=100&page={page}");
                self.http.send(&Call::new(Method::GET, &path, doing)).await?
            }
            Some(app) => {
                let path = format!("/installation/repositories?per_page=100&page={page}");
                let call = Call::new(Method::GET, &path, doing);
                let token = self.http.installation_token(app, list).await?;
                self.http.send_with(&token.secret, &call).await?
            }
        };
        let of_app = answer.body.get("repositories");
        let found = of_app.unwrap_or(&answer.body).as_array().ok_or_else(|| unexpected("a list"))?;
        let is_usable = |found: &&Value| found["archived"] != true && found["permissions"]["push"] != false;
        let found = found.iter().filter(is_usable).filter_map(|found| self.entry(found));
        Ok((found.collect(), answer.next.is_none()))
    }

    fn entry(&self, found: &Value) -> Option<Entry> {
        let text = |name: &str| found[name].as_str().map(str::to_owned);
        let address = text("clone_url")?;
        // Only what this plane would use the credential for.
        Address::parse(&address, self.host.as_deref(), self.api_url.as_deref()).ok()??;
        let on_default_host = address::is_default_host(self.host.as_deref());
        let name = if on_default_host { text("full_name")? } else { address.clone() };
        let (description, default_branch) = (text("description"), text("default_branch"));
        Some(Entry { name, address, description, default_branch, is_repository: true })
    }
}

fn parse(cursor: &str) -> Result<Position, Failure> {
    let parsed = cursor.split_once('.').and_then(|(list, page)| {
        Some(Position { list: list.parse().ok()?, page: page.parse().ok().filter(|page| *page > 0)? })
    });
    parsed.ok_or_else(|| Failure::new(Reason::Invalid, "the cursor is not one of this list"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_of_another_list_is_invalid() {
        assert_eq!(parse("0.2").unwrap(), Position { list: 0, page: 2 });
        for wrong in ["", "2", "0.0", "a.1", "1.", "1.2.3", "-1.2"] {
            assert_eq!(parse(wrong).unwrap_err().reason, Reason::Invalid, "{wrong}");
        }
    }
}

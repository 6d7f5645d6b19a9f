//! Sign-in of the console: the link that `sunaba dev` and `sunaba link` print, and its one-time code.

use crate::command::process_options;
use crate::support::{ApiResponse, OPERATOR, TestPlane, dev};
use kit::process::{Process, ProcessOptions};
use local::dev::Running;
use reqwest::Method;
use serde_json::{Value, json};
use std::process::Output;
use tempfile::TempDir;

const CODES: &str = "/api/v1/sign-in/codes";
const SIGN_IN: &str = "/api/v1/sign-in";

fn code_of(link: &str) -> &str {
    link.split_once("/#code=").unwrap_or_else(|| panic!("no code in {link}")).1
}

async fn sign_in(plane: &TestPlane, code: &str) -> ApiResponse {
    let request = plane.raw(Method::POST, SIGN_IN).header("origin", &plane.url);
    ApiResponse::of(request.body(json!({"code": code}).to_string()).send().await.unwrap()).await
}

#[tokio::test]
async fn link_signs_in_once_and_contains_no_token() {
    let plane = TestPlane::start().await;
    let link = plane.running.link();
    assert!(link.starts_with(&format!("{}/#code=", plane.url)), "{link}");
    assert!(!link.contains(OPERATOR), "{link}");
    let response = sign_in(&plane, code_of(&link)).await;
    assert_eq!(response.headers["cache-control"], "no-store");
    let token = response.ok()["token"].as_str().unwrap().to_owned();
    assert_ne!(token, OPERATOR);
    // It is the operator: on a socket too.
    assert_eq!(plane.get("/api/v1/sandboxes", &token).await.status, 200);
    plane.subscribed(&token, "").await;
    let again = sign_in(&plane, code_of(&link)).await;
    assert_eq!((again.status, &again.body["code"]), (401, &json!("unauthorized")));
    let advice = again.body["detail"].as_str().unwrap();
    assert!(advice.contains("expired or was used before") && advice.contains("sunaba link"), "{advice}");
}

#[tokio::test]
async fn sign_in_routes_refuse_pages_of_other_origins() {
    let plane = TestPlane::start().await;
    let code = code_of(&plane.running.link()).to_owned();
    let call = async |path: &str, header: (&str, &str)| {
        let request = plane.raw(Method::POST, path).bearer_auth(OPERATOR).header(header.0, header.1);
        ApiResponse::of(request.body(json!({"code": code}).to_string()).send().await.unwrap()).await
    };
    for path in [SIGN_IN, CODES] {
        for (header, problem) in [
            (("sec-fetch-site", "cross-site"), "origin_not_allowed"),
            // On localhost, the servers that agents start are of the same site.
            (("sec-fetch-site", "same-site"), "origin_not_allowed"),
            (("origin", "https://evil.example"), "origin_not_allowed"),
            (("origin", "null"), "origin_not_allowed"),
            // It may use the API with a token of its own.
            (("origin", "https://console.example"), "origin_not_allowed"),
            (("host", "evil.example"), "host_not_allowed"),
        ] {
            let refused = call(path, header).await;
            assert_eq!(refused.body["code"], problem, "{path} {header:?}: {}", refused.body);
            assert!(!refused.headers.contains_key("access-control-allow-origin"), "{path} {header:?}");
        }
    }
    // Not a browser: browsers send it with every POST.
    let unknown = plane.call(Method::POST, SIGN_IN, None, Some(json!({"code": code}))).await;
    assert_eq!((unknown.status, &unknown.body["code"]), (403, &json!("origin_not_allowed")));
    // None of them used the code.
    let own = call(SIGN_IN, ("origin", &plane.url)).await;
    assert_eq!(own.status, 200, "{}", own.body);
}

#[tokio::test]
async fn invalid_sign_in_names_the_field() {
    let plane = TestPlane::start().await;
    let send = async |method: Method, body: String| {
        ApiResponse::of(
            plane.raw(method, SIGN_IN).header("origin", &plane.url).body(body).send().await.unwrap(),
        )
        .await
    };
    for (body, status, field) in [
        ("{}".to_owned(), 422, json!("code")),
        (r#"{"code": 7}"#.to_owned(), 422, json!("code")),
        (json!({"code": "x".repeat(300)}).to_string(), 422, json!("code")),
        ("[]".to_owned(), 422, json!("body")),
        ("no JSON".to_owned(), 400, Value::Null),
        ("x".repeat(2_000), 413, json!("body")),
    ] {
        let refused = send(Method::POST, body.clone()).await;
        assert_eq!((refused.status, &refused.body["field"]), (status, &field), "{body}: {}", refused.body);
    }
    let refused = send(Method::GET, String::new()).await;
    assert_eq!((refused.status, &refused.headers["allow"]), (405, &"POST".parse().unwrap()));
}

/// A restart keeps browsers signed in, a new operator token does not.
#[tokio::test]
async fn sign_in_lasts_until_the_operators_token_is_replaced() {
    let data = TempDir::new().unwrap();
    let with_token = async |token: &str| {
        let mut options = dev(&data);
        options.token = Some(token.to_owned());
        local::dev::start(&options).await.unwrap()
    };
    let call = async |plane: &Running, method: Method, path: &str, token: &str, body: Value| {
        let origin = format!("http://{}", plane.address);
        let request =
            reqwest::Client::new().request(method, format!("{origin}{path}")).header("origin", origin);
        ApiResponse::of(request.bearer_auth(token).body(body.to_string()).send().await.unwrap()).await
    };
    let first = with_token("the-first-operator-token").await;
    let code = json!({"code": code_of(&first.link())});
    let signed_in = call(&first, Method::POST, SIGN_IN, "", code).await.ok();
    let browser = signed_in["token"].as_str().unwrap();
    first.stop().await;
    for (token, expected) in [("the-first-operator-token", 200), ("the-second-operator-token", 401)] {
        let plane = with_token(token).await;
        let listed = call(&plane, Method::GET, "/api/v1/sandboxes", browser, json!({})).await;
        assert_eq!(listed.status, expected, "{token}");
        plane.stop().await;
    }
}

async fn sunaba_link(arguments: &[&str], token: Option<&str>) -> Output {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_sunaba"));
    command.arg("link").args(arguments).env_remove("SUNABA_TOKEN").env_remove("SUNABA_URL");
    if let Some(token) = token {
        command.env("SUNABA_TOKEN", token);
    }
    command.stdin(std::process::Stdio::null()).kill_on_drop(true);
    command.output().await.unwrap()
}

#[tokio::test]
async fn link_command_prints_a_link_with_a_new_code() {
    let data = TempDir::new().unwrap();
    let mut options = dev(&data);
    // The command reads the token in the data folder.
    options.token = None;
    let running = local::dev::start(&options).await.unwrap();
    let url = format!("http://{}", running.address);
    let folder = data.path().to_str().unwrap();
    let notice = format!("`sunaba link --url {url} --data {folder}` prints a new one.");
    assert!(running.notices[0].ends_with(&notice), "{:?}", running.notices);
    let output = sunaba_link(&["--url", &url, "--data", folder], None).await;
    assert!(output.status.success(), "{output:?}");
    let link = String::from_utf8(output.stdout).unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "The link works once, within 10 minutes.\n");
    let body = json!({"code": code_of(link.trim_end())}).to_string();
    let request = reqwest::Client::new().post(format!("{url}{SIGN_IN}")).header("origin", &url);
    let signed_in = request.body(body).send().await.unwrap();
    assert_eq!(signed_in.status(), 200);
    let refused = sunaba_link(&["--url", &url], Some("a-wrong-operator-token")).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(String::from_utf8(refused.stderr).unwrap().contains("The token is not valid"));
    running.stop().await;
}

#[tokio::test]
async fn plane_without_authentication_has_links_without_codes() {
    let plane = TestPlane::start_with(|dev| dev.no_auth = true).await;
    assert_eq!(plane.running.link(), format!("{}/", plane.url));
    let output = sunaba_link(&["--url", &plane.url], None).await;
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{}/\n", plane.url));
    // A token would outlive this mode.
    assert_eq!(sign_in(&plane, "any code").await.status, 401);
}

/// Codes are in memory, so the link of an earlier process does not work.
#[tokio::test]
async fn restarted_plane_prints_a_new_code() {
    let data = TempDir::new().unwrap();
    let first = Process::start(&process_options(&data)).await;
    let port = first.url.rsplit(':').next().unwrap().parse().unwrap();
    let old = code_of(&first.link).to_owned();
    first.kill().await;
    let second = Process::start(&ProcessOptions { port, ..process_options(&data) }).await;
    let status = async |code: &str| {
        let request = reqwest::Client::new().post(format!("{}{SIGN_IN}", second.url));
        let request = request.header("origin", &second.url);
        request.body(json!({"code": code}).to_string()).send().await.unwrap().status()
    };
    assert_eq!(status(&old).await, 401);
    assert_eq!(status(code_of(&second.link)).await, 200);
}

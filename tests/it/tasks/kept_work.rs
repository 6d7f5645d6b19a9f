//! Work that workers keep of their workspaces: uploads, downloads, who may see it, and for how long.

use super::TaskApi;
use crate::harness::{body_of, invoke};
use crate::payloads::request;
use crate::support::{OPERATOR, user};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::SandboxId;
use domain::kept::PIECE_BYTES;
use edge::registry::resolve;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that are not UTF-8 and differ at every position.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 31 % 251 + 5) as u8).collect()
}

impl TaskApi {
    /// As the worker of a sandbox.
    async fn upload(&self, sandbox: &SandboxId, content: &[u8]) {
        let token = self.worker_token(sandbox).await;
        let size = usize::try_from(PIECE_BYTES).unwrap();
        for (index, piece) in content.chunks(size).enumerate() {
            let body = json!({"sha256": sha256(content), "piece": index + 1, "data": STANDARD.encode(piece)});
            // A retry changes nothing.
            for _ in 0..2 {
                let path = format!("/sandboxes/{sandbox}/workspace/pieces");
                let (status, stored) = self.call(&token, "POST", &path, Some(body.clone())).await;
                assert_eq!((status, &stored["piece"]), (200, &json!(index + 1)), "{stored}");
            }
        }
    }

    async fn keep(&self, sandbox: &SandboxId, files: &[(&str, &[u8])]) -> Value {
        for (_, content) in files {
            self.upload(sandbox, content).await;
        }
        let file = |(format, content): &(&str, &[u8])| json!({"format": format, "size_bytes": content.len(), "sha256": sha256(content)});
        let left_out = json!([{"path": "data.bin", "reason": "too large"}]);
        let body = json!({"files": files.iter().map(file).collect::<Vec<_>>(), "left_out": left_out});
        let token = self.worker_token(sandbox).await;
        let (status, kept) =
            self.call(&token, "POST", &format!("/sandboxes/{sandbox}/workspace"), Some(body)).await;
        assert_eq!(status, 200, "{kept}");
        kept
    }

    /// The status, and the body of a download or a problem.
    async fn download(&self, path: &str) -> (u64, Vec<u8>, Value) {
        let path = format!("/api/v1{path}");
        let route = resolve(&http::Method::GET, path.split('?').next().unwrap()).unwrap();
        let payload = request("GET", &path, &self.member, None);
        let response = invoke(&self.plane, route.function.name, &payload).await.unwrap();
        let status = response["statusCode"].as_u64().unwrap();
        if status != 200 {
            return (status, Vec::new(), body_of(&response));
        }
        let body = response["body"].as_str().unwrap();
        let bytes = match response["isBase64Encoded"].as_bool() {
            Some(true) => STANDARD.decode(body).unwrap(),
            _ => body.as_bytes().to_vec(),
        };
        (status, bytes, response["headers"].clone())
    }
}

#[tokio::test]
async fn large_archive_is_uploaded_and_downloaded_in_pieces() {
    let api = TaskApi::open().await;
    api.create("t-1", json!({})).await;
    let sandbox = api.start("t-1").await;
    let archive = content(usize::try_from(2 * PIECE_BYTES).unwrap() + 1_234);
    let patch = b"diff --git a/x b/x\n".to_vec();
    let kept = api.keep(&sandbox, &[("archive", &archive), ("patch", &patch)]).await;
    assert_eq!(api.get("/tasks/t-1/workspace/files").await, kept);
    assert_eq!((&kept["task_id"], &kept["attempt"]), (&json!("t-1"), &json!(1)));
    assert_eq!(kept["files"][0]["pieces"], 3, "{kept}");
    assert_eq!(kept["left_out"], json!([{"path": "data.bin", "reason": "too large"}]));
    assert_eq!(kept["left_out_count"], 1);

    let (status, _, problem) = api.download("/tasks/t-1/workspace").await;
    assert_eq!((status, &problem["field"]), (422, &json!("piece")), "{problem}");
    let mut joined = Vec::new();
    for piece in 1..=3 {
        let (status, bytes, headers) = api.download(&format!("/tasks/t-1/workspace?piece={piece}")).await;
        assert_eq!((status, &headers["content-type"]), (200, &json!("application/zstd")));
        assert_eq!(headers["content-disposition"], "attachment; filename=\"t-1.tar.zst\"");
        joined.extend(bytes);
    }
    assert!(joined == archive, "the pieces are the archive");
    let (status, _, problem) = api.download("/tasks/t-1/workspace?piece=4").await;
    assert_eq!((status, &problem["field"]), (422, &json!("piece")), "{problem}");
    let (status, bytes, headers) = api.download("/tasks/t-1/workspace?format=patch").await;
    assert_eq!((status, bytes, &headers["content-type"]), (200, patch, &json!("text/x-diff")));
    let (status, _, problem) = api.download("/tasks/t-1/workspace?format=bundle").await;
    assert_eq!((status, &problem["code"]), (409, &json!("no_workspace")), "{problem}");
}

#[tokio::test]
async fn work_of_each_attempt_is_kept_and_the_latest_is_the_default() {
    let api = TaskApi::open().await;
    api.create("t-1", json!({"max_retries": 3})).await;
    let (status, _, problem) = api.download("/tasks/t-1/workspace").await;
    assert_eq!((status, &problem["code"]), (409, &json!("no_workspace")), "{problem}");
    let first = api.start("t-1").await;
    api.keep(&first, &[("archive", b"first")]).await;
    // The same attempt keeps a newer state.
    api.keep(&first, &[("archive", b"first, later")]).await;
    api.emit(&first, "agent.failed", json!({"error": "the model is away (503)"})).await;
    api.reconcile(&first).await;
    api.harness.clock.advance_secs(600);
    api.run_job(&contract::jobs::Job::ReconcileTask { task_id: super::task_id("t-1") }).await;
    let second = api.start("t-1").await;
    assert_ne!(first, second);
    assert_eq!(api.download("/tasks/t-1/workspace").await.1, b"first, later");
    api.keep(&second, &[("archive", b"second")]).await;
    assert_eq!(api.download("/tasks/t-1/workspace").await.1, b"second");
    assert_eq!(api.download("/tasks/t-1/workspace?attempt=1").await.1, b"first, later");
    let (status, _, problem) = api.download("/tasks/t-1/workspace?attempt=3").await;
    assert_eq!((status, &problem["code"]), (409, &json!("no_workspace")), "{problem}");
}

#[tokio::test]
async fn kept_work_expires() {
    let api = TaskApi::open_with(|settings| settings.workspace_days = 2).await;
    api.create("t-1", json!({})).await;
    let sandbox = api.start("t-1").await;
    let kept = api.keep(&sandbox, &[("archive", b"work")]).await;
    api.harness.clock.advance_secs(2 * 24 * 3600 - 60);
    assert_eq!(api.download("/tasks/t-1/workspace").await.0, 200);
    api.harness.clock.advance_secs(120);
    for path in ["/tasks/t-1/workspace", "/tasks/t-1/workspace/files"] {
        let (status, _, problem) = api.download(path).await;
        assert_eq!((status, &problem["code"]), (410, &json!("workspace_expired")), "{problem}");
        let until = kept["expires_at"].as_str().unwrap();
        assert!(problem["detail"].as_str().unwrap().contains(until), "{problem}");
    }
}

#[tokio::test]
async fn kept_work_belongs_to_its_org_and_only_its_worker_uploads() {
    let api = TaskApi::open().await;
    api.create("t-1", json!({})).await;
    api.create("t-2", json!({})).await;
    let (first, second) = (api.start("t-1").await, api.start("t-2").await);
    api.keep(&first, &[("archive", b"work")]).await;
    let rival = user("rival", "admin");
    for path in ["/tasks/t-1/workspace", "/tasks/t-1/workspace/files"] {
        let (status, hidden) = api.call(&rival, "GET", path, None).await;
        let (missing_status, _) = api.call(&rival, "GET", &path.replace("t-1", "missing"), None).await;
        assert_eq!((status, missing_status), (404, 404), "{hidden}");
        let worker = api.worker_token(&first).await;
        assert_eq!(api.call(&worker, "GET", path, None).await.0, 403, "a worker reads no task");
    }
    let body = json!({"files": [{"format": "archive", "size_bytes": 4, "sha256": sha256(b"evil")}]});
    let other_worker = api.worker_token(&second).await;
    for token in [&other_worker, &api.member, &rival] {
        let path = format!("/sandboxes/{first}/workspace");
        assert_eq!(api.call(token, "POST", &path, Some(body.clone())).await.0, 403);
    }
    // A sandbox without a task has nothing to keep.
    api.harness.register("s-1").await;
    let (status, problem) = api.call(OPERATOR, "POST", "/sandboxes/s-1/workspace", Some(body)).await;
    assert_eq!((status, &problem["code"]), (409, &json!("task_mismatch")), "{problem}");
    assert_eq!(api.download("/tasks/t-1/workspace").await.1, b"work");
}

/// Between the end of a sandbox and its removal, its worker saves what there is.
#[tokio::test]
async fn worker_keeps_work_after_the_plane_has_ended_its_sandbox() {
    let api = TaskApi::open().await;
    api.create("t-1", json!({})).await;
    let sandbox = api.start("t-1").await;
    assert_eq!(api.post("/tasks/t-1/cancel", json!({})).await.0, 200);
    api.reconcile(&sandbox).await;
    let stored = || async { api.harness.aws.store.sandbox(&sandbox).await.unwrap().unwrap() };
    assert!(stored().await.status().is_final());
    assert!(stored().await.needs_reconcile(), "the worker lives, so its sandbox is not removed yet");
    api.keep(&sandbox, &[("archive", b"half of it")]).await;
    api.emit(&sandbox, "agent.shutdown", json!({"reason": "sandbox_finished"})).await;
    api.reconcile(&sandbox).await;
    assert!(!stored().await.needs_reconcile(), "the worker has exited");
    assert_eq!(api.download("/tasks/t-1/workspace").await.1, b"half of it");
}

#[tokio::test]
async fn sandbox_of_a_worker_that_does_not_respond_is_removed_after_the_grace_period() {
    let api = TaskApi::open().await;
    api.create("t-1", json!({})).await;
    let sandbox = api.start("t-1").await;
    assert_eq!(api.post("/tasks/t-1/cancel", json!({})).await.0, 200);
    api.reconcile(&sandbox).await;
    api.harness.clock.advance_secs(31);
    api.reconcile(&sandbox).await;
    let stored = api.harness.aws.store.sandbox(&sandbox).await.unwrap().unwrap();
    assert!(!stored.needs_reconcile());
}

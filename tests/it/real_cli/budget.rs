//! Turns that end because of a budget or a model error.

use super::session;
use super::turns::bash;
use kit::claude::{Cli, Home};
use kit::model::{Model, Reply, Script, Usage};
use kit::offline::offline;

#[test]
fn turn_stops_when_its_budget_is_exceeded() {
    offline(async {
        let expensive = Usage { input: 100_000, output: 10_000, ..Usage::default() };
        let script = Script::new()
            .when("work", bash("echo one", "Work").with_usage(expensive))
            .always("one", bash("echo one", "Work").with_usage(expensive));
        let (_home, _model, mut cli) =
            session(script, &["--max-budget-usd=0.50", "--allowedTools=Bash"]).await;
        cli.send_message("work").await;
        let result = cli.result().await;
        assert_eq!(result["subtype"], "error_max_budget_usd", "{result}");
        assert!(result["total_cost_usd"].as_f64().unwrap() > 0.50, "{result}");
        let (_, recording) = cli.close().await;
        recording.save("budget");
    });
}

#[test]
fn overloaded_model_is_retried_up_to_the_limit() {
    offline(async {
        let script = Script::new().always("hello", Reply::error(529, None));
        let (home, model) = (Home::new(), Model::start(script).await);
        let session = format!("--session-id={}", super::SESSION);
        let retries = [("CLAUDE_CODE_MAX_RETRIES", "2")];
        let mut cli = Cli::start_with(&home, &model, &[&session], &retries);
        cli.initialize().await;
        cli.send_message("hello").await;
        let retry = cli.until(|frame| frame["subtype"] == "api_retry").await;
        assert_eq!(retry["error_status"], 529, "{retry}");
        let result = cli.result().await;
        assert_eq!(result["subtype"], "success", "{result}");
        assert_eq!(result["is_error"], true, "{result}");
        assert_eq!(result["api_error_status"], 529, "{result}");
        assert_eq!(model.prompts().len(), 3, "one attempt and two retries");
        let (_, recording) = cli.close().await;
        recording.save("api_error");
    });
}

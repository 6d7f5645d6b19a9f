//! Sessions that resume on another machine.

use super::turns::bash;
use super::{GATED, SESSION, open_gate, session};
use kit::claude::{Cli, Home, Recording};
use kit::model::{Reply, Script};
use kit::offline::offline;
use serde_json::{Value, json};
use std::fs;

#[test]
fn killed_turn_resumes_from_its_mirrored_transcript_on_another_machine() {
    offline(async {
        let script = Script::new()
            .when("begin", Reply::text("I begin."))
            .when("go on", bash(&format!("{GATED} echo slept >> log.txt; cat log.txt"), "Wait"))
            .always("slept", Reply::text("Finished."))
            .always("", bash("echo slept >> log.txt; cat log.txt", "Work"));
        let (lost, model, mut cli) = session(script, &["--allowedTools=Bash"]).await;
        cli.send_message("begin").await;
        cli.result().await;
        let first = cli.send_message("go on").await;
        cli.receipt(&first, "started").await;
        cli.until(|frame| frame["message"]["content"][0]["type"] == "tool_use").await;
        // The mirror may lag behind, and entries that are not mirrored are lost with the machine.
        cli.until(|frame| frame["type"] == "transcript_mirror" && frame.to_string().contains("tool_use"))
            .await;
        let recording = cli.kill().await;
        open_gate(&lost);
        recording.save("killed");

        let home = Home::new();
        restore_transcript(&recording, &home);
        let resume = format!("--resume={SESSION}");
        let environment = [
            ("CLAUDE_CODE_RESUME_INTERRUPTED_TURN", "1"),
            ("CLAUDE_CODE_RESUME_REASON", "container_recreated"),
        ];
        let mut cli = Cli::start_with(&home, &model, &[&resume, "--allowedTools=Bash"], &environment);
        cli.initialize().await;
        let result = cli.result().await;
        assert_eq!(result["subtype"], "success", "{result}");
        assert_eq!(result["result"], "Finished.", "{result}");
        let history = model.until_prompted("slept").await.body["messages"].to_string();
        assert!(history.contains("I begin."), "the model gets the history: {history}");
        // The mirror has no costs, so the total restarts at zero.
        assert!((result["total_cost_usd"].as_f64().unwrap() - 0.0012).abs() < 1e-9, "{result}");
        let (_, recording) = cli.close().await;
        recording.save("resumed");
    });
}

/// Writes the mirrored transcript to the path where the CLI reads it.
fn restore_transcript(recording: &Recording, home: &Home) {
    let path = home.transcript(SESSION);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let name = path.file_name().unwrap();
    let files = recording.mirrored();
    let (_, entries) = files.iter().find(|(file, _)| file.file_name() == Some(name)).unwrap();
    let lines: Vec<String> = entries.iter().map(|entry| format!("{entry}\n")).collect();
    fs::write(path, lines.concat()).unwrap();
}

/// A transcript has a placeholder for each entry that the plane rejected (`outbox::spool_store`). The CLI skips it and still
/// finds the earlier entries.
#[test]
fn session_resumes_from_a_transcript_with_placeholders() {
    offline(async {
        let script = Script::new()
            .when("begin", Reply::text("I begin."))
            .when("remember", Reply::text("A large answer."))
            .always("", Reply::text("I go on."));
        let (_lost, model, mut cli) = session(script, &[]).await;
        for text in ["begin", "remember"] {
            cli.send_message(text).await;
            cli.result().await;
        }
        let (_, recording) = cli.close().await;
        let home = Home::new();
        restore_transcript(&recording, &home);
        let path = home.transcript(SESSION);
        let transcript = fs::read_to_string(&path).unwrap();
        let mut lines = vec![r#"{"type":"sunaba.refused"}"#.to_owned()];
        for line in transcript.lines() {
            let entry: Value = serde_json::from_str(line).unwrap();
            lines.push(match line.contains("A large answer.") && entry["uuid"].is_string() {
                true => json!({"type": "system", "subtype": "sunaba.refused", "level": "info",
                    "content": "Omitted: the entry is too large to be stored.", "uuid": entry["uuid"],
                    "parentUuid": entry["parentUuid"], "sessionId": entry["sessionId"],
                    "timestamp": entry["timestamp"], "isSidechain": false})
                .to_string(),
                false => line.to_owned(),
            });
        }
        fs::write(&path, lines.join("\n") + "\n").unwrap();
        let mut cli = Cli::start(&home, &model, &[&format!("--resume={SESSION}")]);
        cli.initialize().await;
        // A new id, because the CLI ignores messages that it has already answered.
        let message = json!({"role": "user", "content": "and now"});
        let uuid = "00000000-0000-4000-8000-0000000000aa";
        cli.send(json!({"type": "user", "message": message, "parent_tool_use_id": null, "session_id": "", "uuid": uuid}))
            .await;
        assert_eq!(cli.result().await["result"], "I go on.");
        let history = model.until_prompted("and now").await.body["messages"].to_string();
        assert!(history.contains("I begin.") && !history.contains("A large answer."), "{history}");
        cli.close().await;
    });
}

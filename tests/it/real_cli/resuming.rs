//! Sessions that go on elsewhere.

use super::turns::bash;
use super::{SESSION, session};
use kit::claude::{Cli, Home, Recording};
use kit::model::{Reply, Script};
use kit::offline::offline;
use std::fs;

#[test]
fn a_killed_turn_goes_on_from_its_mirror_on_another_machine() {
    offline(async {
        let script = Script::new()
            .when("begin", Reply::text("I begin."))
            .when("go on", bash("sleep 2; echo slept >> log.txt; cat log.txt", "Wait"))
            .always("slept", Reply::text("Finished."))
            .always("", bash("sleep 1; echo slept >> log.txt; cat log.txt", "Wait"));
        let (_lost, model, mut cli) = session(script, &["--allowedTools=Bash"]).await;
        cli.say("begin").await;
        cli.result().await;
        let first = cli.say("go on").await;
        cli.receipt(&first, "started").await;
        cli.until(|frame| frame["message"]["content"][0]["type"] == "tool_use").await;
        // The mirror may lag behind: what is not in it is lost with the machine.
        cli.until(|frame| frame["type"] == "transcript_mirror" && frame.to_string().contains("tool_use"))
            .await;
        let recording = cli.kill().await;
        recording.save("killed");

        let home = Home::new();
        rebuild(&recording, &home);
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
        let history = model.until_told("slept").await.body["messages"].to_string();
        assert!(history.contains("I begin."), "the model knows what was before: {history}");
        // What a machine spent before it was lost is not in its mirror: the count begins anew.
        assert!((result["total_cost_usd"].as_f64().unwrap() - 0.0012).abs() < 1e-9, "{result}");
        let (_, recording) = cli.close().await;
        recording.save("resumed");
    });
}

/// Writes what was mirrored to where the CLI looks for it.
fn rebuild(recording: &Recording, home: &Home) {
    let path = home.transcript(SESSION);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let name = path.file_name().unwrap();
    let files = recording.mirrored();
    let (_, entries) = files.iter().find(|(file, _)| file.file_name() == Some(name)).unwrap();
    let lines: Vec<String> = entries.iter().map(|entry| format!("{entry}\n")).collect();
    fs::write(path, lines.concat()).unwrap();
}

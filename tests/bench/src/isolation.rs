//! What isolation adds to the start of a program.

use crate::report::{Measured, Report};
use confine::{Launcher, Policy, Tier};
use kit::namespace::Namespace;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;
use tempfile::TempDir;

/// `sunaba` is the program that starts others.
pub fn measure(report: &mut Report, sunaba: &Path, scale: usize) {
    let folder = TempDir::with_prefix("bench-").expect("a temporary folder can be created");
    let workspace = folder.path().join("workspace");
    std::fs::create_dir(&workspace).expect("a temporary folder can be written to");
    let policy = Policy { writable: vec![workspace.clone()], ..Policy::default() };
    let program = vec![sunaba.display().to_string(), "worker".to_owned()];
    let environment = BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]);
    let launcher = |tier| Launcher::new(tier, policy.clone(), program.clone(), environment.clone());
    for tier in [Tier::None, Tier::Landlock, Tier::Namespaces] {
        let launcher = match launcher(tier) {
            Ok(launcher) => launcher,
            Err(why) => {
                report.value(
                    &format!("start of `true`, isolation {tier}"),
                    format!("not possible: {why:#}"),
                    "",
                );
                continue;
            }
        };
        let (launcher, _namespace) = Namespace::open(&launcher, folder.path());
        let mut times = Vec::new();
        for _ in 0..200 / scale {
            let begun = Instant::now();
            let command = launcher.command(OsStr::new("true"), [], &workspace);
            let status = command.expect("`true` exists").stdin(Stdio::null()).status();
            assert!(status.is_ok_and(|status| status.success()), "`true` runs in the tier {tier}");
            times.push(begun.elapsed());
        }
        let all = times.iter().sum();
        let target = if tier == Tier::Namespaces { "p50 ≤ 50 ms more than none" } else { "" };
        report.times(&format!("start of `true`, isolation {tier}"), &Measured::new(times, all), target);
    }
}

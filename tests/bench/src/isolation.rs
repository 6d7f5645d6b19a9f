//! What isolation adds to the start of a program, and of a worker.

use crate::report::{Measured, Report};
use confine::{Launcher, Policy, Tier};
use kit::namespace::Namespace;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
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
    let mut without = None;
    for tier in [Tier::None, Tier::Landlock, Tier::Namespaces] {
        let name = format!("start of `true`, isolation {tier}");
        let launcher = match launcher(tier) {
            Ok(launcher) => launcher,
            Err(why) => {
                report.value(&name, format!("not possible: {why:#}"), "");
                continue;
            }
        };
        if tier == Tier::Namespaces {
            report.times("start of the bridge, once for each worker", &bridge(&launcher, &folder, scale), "");
        }
        let (launcher, _namespace) = Namespace::open(&launcher, folder.path());
        let measured = repeat(200 / scale, || {
            let command = launcher.command(OsStr::new("true"), [], &workspace);
            let status = command.expect("`true` exists").stdin(Stdio::null()).status();
            assert!(status.is_ok_and(|status| status.success()), "`true` runs in the tier {tier}");
        });
        let target = if tier == Tier::Namespaces { "p50 ≤ 50 ms more than none" } else { "" };
        report.times(&name, &measured, target);
        let median = measured.percentile(0.5);
        let extra = median.saturating_sub(*without.get_or_insert(median));
        assert!(tier != Tier::Namespaces || extra <= MAX_EXTRA, "namespaces add {extra:?} to a start");
    }
}

/// What the tier `namespaces` may add to the start of a program.
const MAX_EXTRA: Duration = Duration::from_millis(50);

/// From the start of the bridge until it is ready. A worker waits for it before it starts its agent.
fn bridge(launcher: &Launcher, folder: &TempDir, scale: usize) -> Measured {
    repeat(50 / scale, || Namespace::open(launcher, folder.path()))
}

/// Times of some work. What it returns is dropped outside of them.
fn repeat<T>(count: usize, work: impl Fn() -> T) -> Measured {
    let time = |_| {
        let begun = Instant::now();
        let _result = work();
        begun.elapsed()
    };
    let times: Vec<Duration> = (0..count).map(time).collect();
    let all = times.iter().sum();
    Measured::new(times, all)
}

//! Data of policies: suggested sets of hosts, and directories that no policy opens.

/// Suggested sets of hosts: name, purpose, hosts. `set:<name>` in `allowedDomains` stands for the hosts.
pub const SETS: [(&str, &str, &[&str]); 3] = [
    (
        "model-apis",
        "APIs of models, for agents that do not use an endpoint of the worker",
        &["api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com", "openrouter.ai"],
    ),
    (
        "code-hosts",
        "GitHub, GitLab and Bitbucket",
        &[
            "github.com",
            "*.github.com",
            "*.githubusercontent.com",
            "gitlab.com",
            "*.gitlab.com",
            "bitbucket.org",
            "*.bitbucket.org",
        ],
    ),
    (
        "registries",
        "Package registries of npm, PyPI, crates.io, Go, RubyGems, Maven, NuGet, Debian and Ubuntu",
        &[
            "registry.npmjs.org",
            "registry.yarnpkg.com",
            "pypi.org",
            "files.pythonhosted.org",
            "crates.io",
            "index.crates.io",
            "static.crates.io",
            "static.rust-lang.org",
            "proxy.golang.org",
            "sum.golang.org",
            "rubygems.org",
            "index.rubygems.org",
            "repo.maven.apache.org",
            "repo1.maven.org",
            "plugins.gradle.org",
            "api.nuget.org",
            "deb.debian.org",
            "archive.ubuntu.com",
            "security.ubuntu.com",
        ],
    ),
];

/// Directories of the system. No policy makes one, or a part of one, writable.
pub(super) const SYSTEM: [&str; 15] = [
    "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc", "/opt", "/nix", "/boot", "/proc",
    "/sys", "/dev", "/run",
];

/// Directories with the data of all users and services, which no policy opens as a whole.
pub(super) const SHARED: [&str; 8] =
    ["/home", "/root", "/var", "/tmp", "/var/lib", "/var/run", "/var/tmp", "/srv"];

/// Directories that describe processes and devices outside of the sandbox. No policy makes a part of one readable.
pub(super) const NEVER_READABLE: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];

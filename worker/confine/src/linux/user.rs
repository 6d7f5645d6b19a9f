//! Users of agents: which one, what it can reach, and becoming it.

use super::search_permission;
use crate::user::User;
use rustix::fs::{FileType, Stat, fchown, fstat};
use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Numbers that nothing else assigns (<https://systemd.io/UIDS-GIDS/>). The first is the group of all agents.
const NUMBERS: Range<u32> = 0x7000_0000..0x7fff_ffff;

/// Where a container has only 65,536 users. Accounts usually have lower numbers, services that systemd starts higher ones.
const FEW_NUMBERS: Range<u32> = 20_000..60_000;

/// What the worker needs to switch to another user, and afterwards to read its files and end its processes.
const REQUIRED: [CapabilitySet; 6] = [
    CapabilitySet::SETUID,
    CapabilitySet::SETGID,
    CapabilitySet::CHOWN,
    CapabilitySet::FOWNER,
    CapabilitySet::DAC_OVERRIDE,
    CapabilitySet::KILL,
];

/// The user for the agent with this home directory, which exists. `None` if the worker is a plain user, which cannot become
/// another.
///
/// # Errors
/// Why the agent of this worker, which is root, cannot have a user of its own, as a clause.
pub(crate) fn assign(home: &Path) -> Result<Option<User>, String> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let own = capabilities(None).map_err(|why| format!("its capabilities are unknown: {why}"))?.effective;
    if let Some(missing) = REQUIRED.into_iter().find(|&required| !own.contains(required)) {
        return Err(format!("it lacks the capability {missing:?}"));
    }
    let of_this_process = |name: &str| std::fs::read_to_string(Path::new("/proc/self").join(name));
    // A kernel without user namespaces has no such files, and all numbers.
    let map = |name: &str| of_this_process(name).unwrap_or_else(|_| "0 0 4294967295".to_owned());
    let numbers = numbers(&map("uid_map"), &map("gid_map"));
    let numbers = numbers.ok_or("its user namespace has no further users")?;
    if of_this_process("setgroups").is_ok_and(|setting| setting.trim() == "deny") {
        return Err("its user namespace denies changing groups".to_owned());
    }
    let owner = home.metadata().map_err(|why| format!("{}: {why}", home.display()))?.uid();
    let user = User { id: number(home, owner, &numbers), agents: numbers.start };
    user.grant_search_on_ancestors(home).map_err(|why| format!("{why}"))?;
    Ok(Some(user))
}

/// The numbers that exist in this user namespace, according to its maps of users and groups.
fn numbers(users: &str, groups: &str) -> Option<Range<u32>> {
    let contains = |map: &str, range: &Range<u32>| {
        map.lines().any(|line| {
            let mut numbers = line.split_whitespace().map(str::parse::<u64>);
            let (Some(Ok(first)), Some(Ok(_)), Some(Ok(count))) =
                (numbers.next(), numbers.next(), numbers.next())
            else {
                return false;
            };
            first <= range.start.into() && first + count >= range.end.into()
        })
    };
    [NUMBERS, FEW_NUMBERS].into_iter().find(|range| contains(users, range) && contains(groups, range))
}

/// The owner of the directory, if it is a user of an agent, so that the number stays the same.
fn number(home: &Path, owner: u32, numbers: &Range<u32>) -> u32 {
    let users = numbers.start + 1..numbers.end;
    if users.contains(&owner) {
        return owner;
    }
    let mut hasher = DefaultHasher::new();
    home.hash(&mut hasher);
    let offset = hasher.finish() % u64::from(users.end - users.start);
    users.start + u32::try_from(offset).expect("less than the number of users")
}

impl User {
    pub(super) fn uid(self) -> Uid {
        Uid::from_raw(self.id)
    }

    pub(super) fn gid(self) -> Gid {
        Gid::from_raw(self.id)
    }

    /// Whether files of `owner` may become those of this user: it is root or another agent.
    pub(super) fn may_chown_from(self, owner: u32) -> bool {
        let numbers = if self.agents == NUMBERS.start { NUMBERS } else { FEW_NUMBERS };
        owner == 0 || (numbers.contains(&owner) && owner != numbers.start)
    }

    pub(super) fn is_owned(self, status: &Stat) -> bool {
        (status.st_uid, status.st_gid) == (self.id, self.id)
    }

    pub(super) fn change_owner(self, file: impl AsFd, status: &Stat) -> io::Result<()> {
        if !self.is_owned(status) {
            fchown(file, Some(self.uid()), Some(self.gid()))?;
        }
        Ok(())
    }

    /// Lets this user pass through the directories above `path`. It cannot list them.
    pub(crate) fn grant_search_on_ancestors(self, path: &Path) -> io::Result<()> {
        let canonical = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        // Both: a path may lead through a link in a closed directory.
        for directory in path.ancestors().chain(canonical.ancestors()).skip(1) {
            let Ok(metadata) = directory.metadata() else { continue };
            let is_closed = metadata.mode() & 0o001 == 0;
            if metadata.is_dir() && is_closed && metadata.uid() != self.id {
                search_permission::grant(directory, self.agents).map_err(|why| {
                    let text =
                        format!("its user cannot be allowed to pass through {}: {why}", directory.display());
                    io::Error::new(why.kind(), text)
                })?;
            }
        }
        Ok(())
    }
}

/// Makes this thread, which must be the only one, a process of the user. Its standard streams too, if they are pipes:
/// otherwise, programs could not open `/dev/stdout`.
pub(super) fn become_user(user: User) -> io::Result<()> {
    for stream in [io::stdin().as_fd(), io::stdout().as_fd(), io::stderr().as_fd()] {
        let Ok(status) = fstat(stream) else { continue };
        if FileType::from_raw_mode(status.st_mode) == FileType::Fifo {
            user.change_owner(stream, &status)?;
        }
    }
    let (uid, gid) = (user.uid(), user.gid());
    set_thread_groups(&[Gid::from_raw(user.agents)])?;
    set_thread_res_gid(gid, gid, gid)?;
    Ok(set_thread_res_uid(uid, uid, uid)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_that_the_user_namespace_has() {
        let all = "         0          0 4294967295\n";
        assert_eq!(numbers(all, all), Some(NUMBERS));
        let few = "0 100000 65536\n";
        assert_eq!(numbers(few, few), Some(FEW_NUMBERS));
        assert_eq!(numbers(all, few), Some(FEW_NUMBERS));
        assert_eq!(numbers("0 1000 1\n", "0 1000 1\n"), None);
        assert_eq!(numbers("0 1000 1\n1 100000 65536\n", "0 1000 1\n1 100000 65536\n"), Some(FEW_NUMBERS));
        assert_eq!(numbers("", ""), None);
    }

    #[test]
    fn sandboxes_have_different_users_that_stay_the_same() {
        let [one, other] =
            ["/data/one/home", "/data/other/home"].map(|home| number(Path::new(home), 0, &NUMBERS));
        assert_ne!(one, other);
        assert!(NUMBERS.contains(&one) && one != NUMBERS.start, "the first is the group of all agents");
        assert_eq!(number(Path::new("/moved/one/home"), one, &NUMBERS), one);
    }
}

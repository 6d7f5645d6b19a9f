//! Lets a group pass through a directory, with an entry in its access control list.
//!
//! The permission bits stay as they are for other users. The group cannot list the directory.

use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::io::Errno;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// See `posix_acl_xattr.h` of Linux.
const ATTRIBUTE: &str = "system.posix_acl_access";
const VERSION: u32 = 2;
const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const OWNING_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
/// Upper bound of the permissions of groups and of named users.
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;
const NO_ID: u32 = u32::MAX;

const SEARCH: u16 = 1;

/// Attributes of any size that Linux supports fit.
const MAX_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    tag: u16,
    permissions: u16,
    id: u32,
}

/// Grants it. Idempotent.
pub(super) fn grant(directory: &Path, group: u32) -> io::Result<()> {
    let entries = match read(directory)? {
        Some(entries) => entries,
        None => of_mode(directory.metadata()?.mode()),
    };
    let granted = with_search(entries.clone(), group);
    if granted == entries {
        return Ok(());
    }
    Ok(setxattr(directory, ATTRIBUTE, &encode(&granted), XattrFlags::empty())?)
}

fn read(directory: &Path) -> io::Result<Option<Vec<Entry>>> {
    let mut bytes = vec![0; MAX_BYTES];
    match getxattr(directory, ATTRIBUTE, &mut bytes[..]) {
        Ok(length) => decode(&bytes[..length]).map(Some),
        Err(Errno::NODATA) => Ok(None),
        Err(why) => Err(why.into()),
    }
}

/// The list that the permission bits stand for.
fn of_mode(mode: u32) -> Vec<Entry> {
    let entry = |tag: u16, shift: u32| {
        let permissions = u16::try_from(mode >> shift & 0o7).expect("three bits");
        Entry { tag, permissions, id: NO_ID }
    };
    vec![entry(OWNER, 6), entry(OWNING_GROUP, 3), entry(OTHERS, 0)]
}

/// The kernel requires this order: owner, users, owning group, groups, mask, others.
fn with_search(mut entries: Vec<Entry>, group: u32) -> Vec<Entry> {
    match entries.iter_mut().find(|entry| entry.tag == GROUP && entry.id == group) {
        Some(entry) => entry.permissions |= SEARCH,
        None => entries.push(Entry { tag: GROUP, permissions: SEARCH, id: group }),
    }
    match entries.iter().position(|entry| entry.tag == MASK) {
        Some(mask) if entries[mask].permissions & SEARCH == 0 => {
            entries[mask].permissions |= SEARCH;
            // The mask held it back from the others. They must not get it now.
            let is_other = |entry: &&mut Entry| {
                [USER, OWNING_GROUP, GROUP].contains(&entry.tag) && (entry.tag, entry.id) != (GROUP, group)
            };
            entries.iter_mut().filter(is_other).for_each(|entry| entry.permissions &= !SEARCH);
        }
        Some(_) => {}
        None => {
            // Without a mask, nothing else was limited by it.
            let limited = entries.iter().filter(|entry| [OWNING_GROUP, GROUP].contains(&entry.tag));
            let permissions = limited.fold(0, |all, entry| all | entry.permissions);
            entries.push(Entry { tag: MASK, permissions, id: NO_ID });
        }
    }
    entries.sort_by_key(|entry| (entry.tag, entry.id));
    entries
}

fn encode(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = VERSION.to_le_bytes().to_vec();
    for entry in entries {
        bytes.extend(entry.tag.to_le_bytes());
        bytes.extend(entry.permissions.to_le_bytes());
        bytes.extend(entry.id.to_le_bytes());
    }
    bytes
}

fn decode(bytes: &[u8]) -> io::Result<Vec<Entry>> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "its access control list is unknown");
    let (version, rest) = bytes.split_first_chunk().ok_or_else(invalid)?;
    let (entries, remainder) = rest.as_chunks::<8>();
    if u32::from_le_bytes(*version) != VERSION || !remainder.is_empty() {
        return Err(invalid());
    }
    let decode = |&[a, b, c, d, id @ ..]: &[u8; 8]| Entry {
        tag: u16::from_le_bytes([a, b]),
        permissions: u16::from_le_bytes([c, d]),
        id: u32::from_le_bytes(id),
    };
    Ok(entries.iter().map(decode).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    const AGENTS: u32 = 0x7000_0000;

    #[test]
    fn group_may_search_and_others_keep_their_permissions() {
        let granted = with_search(of_mode(0o750), AGENTS);
        let expected = [
            (OWNER, 7, NO_ID),
            (OWNING_GROUP, 5, NO_ID),
            (GROUP, SEARCH, AGENTS),
            (MASK, 5, NO_ID),
            (OTHERS, 0, NO_ID),
        ];
        assert_eq!(granted, expected.map(|(tag, permissions, id)| Entry { tag, permissions, id }));
        assert_eq!(with_search(granted.clone(), AGENTS), granted);
        assert_eq!(decode(&encode(&granted)).unwrap(), granted);
        assert!(decode(&[2, 0, 0, 0, 1]).is_err());
    }

    #[test]
    fn entries_get_nothing_that_the_mask_held_back() {
        let entry = |tag, permissions, id| Entry { tag, permissions, id };
        let limited = |mask| {
            vec![
                entry(OWNER, 7, NO_ID),
                entry(USER, 7, 1000),
                entry(OWNING_GROUP, 5, NO_ID),
                entry(GROUP, 5, 2000),
                entry(MASK, mask, NO_ID),
                entry(OTHERS, 0, NO_ID),
            ]
        };
        let granted = with_search(limited(4), AGENTS);
        let expected = vec![
            entry(OWNER, 7, NO_ID),
            entry(USER, 6, 1000),
            entry(OWNING_GROUP, 4, NO_ID),
            entry(GROUP, 4, 2000),
            entry(GROUP, SEARCH, AGENTS),
            entry(MASK, 5, NO_ID),
            entry(OTHERS, 0, NO_ID),
        ];
        assert_eq!(granted, expected);
        assert_eq!(with_search(granted.clone(), AGENTS), granted);
        let unchanged = with_search(limited(5), AGENTS);
        assert!(limited(5).iter().all(|entry| unchanged.contains(entry)), "the mask allowed it already");
    }

    #[test]
    fn permission_that_a_changed_mode_took_away_is_granted_again() {
        let directory = tempfile::tempdir().unwrap();
        let set = |mode| fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).unwrap();
        set(0o700);
        grant(directory.path(), AGENTS).unwrap();
        let first = read(directory.path()).unwrap().unwrap();
        assert_eq!(first, with_search(of_mode(0o700), AGENTS));
        // Sets the mask too.
        set(0o700);
        assert_ne!(read(directory.path()).unwrap().unwrap(), first);
        grant(directory.path(), AGENTS).unwrap();
        assert_eq!(read(directory.path()).unwrap().unwrap(), first);
    }
}

//! Filters system calls. Those that are denied return an error, so that programs with a fallback work.
//!
//! This is a list of what is denied: what agents run is too diverse for a list of what is allowed.

use anyhow::Context;
use libc::{c_int, c_long};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};
use std::collections::BTreeMap;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Denied with `EPERM`.
const DENIED: &[c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Keys, which belong to the user and not to a namespace.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // Parts of the kernel that few programs need and that have had many vulnerabilities.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_acct,
    libc::SYS_reboot,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
];

/// Denied with `ENOSYS`: programs then use an older call, whose arguments can be checked.
const ABSENT: &[c_long] = &[
    // Its flags are in memory, which a filter cannot read. Programs fall back to `clone`.
    libc::SYS_clone3,
    // Opens sockets, among others, past this filter.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Flags of `clone` and `unshare` that create namespaces.
const NAMESPACES: c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// The flag of `unshare` for a time namespace. In `clone` these bits are the signal.
const CLONE_NEWTIME: c_int = 0x80;

/// Writes into the input of a terminal, which may be the one that the worker was started from.
const TERMINAL_INPUT: [u64; 2] = [0x5412, 0x541c];

/// Numbers of the x32 variant of x86-64 have this bit. Kernels that support it would not find them in the filter.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// Calls that have another number in the x32 variant: `ptrace`, `kexec_load`, `process_vm_readv`, `process_vm_writev`.
#[cfg(target_arch = "x86_64")]
const ONLY_X32: [i64; 4] = [521, 528, 539, 540];

/// Filters the calls of this thread and of what it executes.
pub(super) fn filter() -> anyhow::Result<()> {
    install(absent(), libc::ENOSYS)?;
    install(denied()?, libc::EPERM)
}

fn absent() -> Rules {
    with_x32(ABSENT.iter().map(|&call| (call, Vec::new())).collect())
}

fn denied() -> anyhow::Result<Rules> {
    let mut rules: Rules = DENIED.iter().map(|&call| (call, Vec::new())).collect();
    let has_flag = |flags: c_int| -> anyhow::Result<Vec<SeccompRule>> {
        let flags = (0..32).map(|bit| 1_u64 << bit).filter(|bit| u64::from(flags.cast_unsigned()) & bit != 0);
        flags.map(|flag| rule(&[(0, SeccompCmpOp::MaskedEq(flag), flag)])).collect()
    };
    rules.insert(libc::SYS_clone, has_flag(NAMESPACES)?);
    rules.insert(libc::SYS_unshare, has_flag(NAMESPACES | CLONE_NEWTIME)?);
    let number = |number: c_int| u64::from(number.cast_unsigned());
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].map(number);
    let other_family: Vec<_> = families.iter().map(|&family| (0, SeccompCmpOp::Ne, family)).collect();
    let netlink = [(0, SeccompCmpOp::Eq, families[3]), (2, SeccompCmpOp::Ne, number(libc::NETLINK_ROUTE))];
    let sockets = vec![
        rule(&other_family)?,
        rule(&netlink)?,
        // Rules for TCP do not apply to it.
        rule(&[(2, SeccompCmpOp::Eq, number(libc::IPPROTO_MPTCP))])?,
    ];
    rules.insert(libc::SYS_socket, sockets);
    rules.insert(libc::SYS_socketpair, vec![rule(&[(0, SeccompCmpOp::Ne, families[0])])?]);
    let terminal = TERMINAL_INPUT.iter().map(|&request| rule(&[(1, SeccompCmpOp::Eq, request)]));
    rules.insert(libc::SYS_ioctl, terminal.collect::<anyhow::Result<_>>()?);
    #[cfg(target_arch = "x86_64")]
    rules.extend(ONLY_X32.map(|call| (X32 | call, Vec::new())));
    Ok(with_x32(rules))
}

/// A rule that matches if all of these do: index of an argument, comparison, value.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> anyhow::Result<SeccompRule> {
    let conditions = conditions.iter().map(|(index, operator, value)| {
        SeccompCondition::new(*index, SeccompCmpArgLen::Dword, operator.clone(), *value)
    });
    let conditions = conditions.collect::<Result<_, _>>().context("invalid condition")?;
    SeccompRule::new(conditions).context("invalid rule")
}

#[cfg(target_arch = "x86_64")]
fn with_x32(mut rules: Rules) -> Rules {
    let numbers: Vec<i64> = rules.keys().copied().filter(|number| number & X32 == 0).collect();
    for number in numbers {
        let chain = rules[&number].clone();
        rules.insert(X32 | number, chain);
    }
    rules
}

#[cfg(not(target_arch = "x86_64"))]
fn with_x32(rules: Rules) -> Rules {
    rules
}

fn install(rules: Rules, error: c_int) -> anyhow::Result<()> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).context("unknown processor architecture")?;
    let action = SeccompAction::Errno(error.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch)?;
    let filter: BpfProgram = filter.try_into()?;
    Ok(apply_filter(&filter)?)
}

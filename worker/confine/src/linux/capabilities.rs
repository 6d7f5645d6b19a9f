use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// Drops those that programs of root would get. Needs a capability itself, so it comes before the user changes.
pub(super) fn drop_bounding() -> std::io::Result<()> {
    let has_setpcap = capabilities(None)?.effective.contains(CapabilitySet::SETPCAP);
    if has_setpcap {
        for bit in 0..64 {
            let one = CapabilitySet::from_bits_retain(1 << bit);
            // Fails for capabilities that this kernel does not have.
            let _ = remove_capability_from_bounding_set(one);
        }
    }
    Ok(())
}

/// Drops all capabilities of this thread.
pub(super) fn drop_all() -> std::io::Result<()> {
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}

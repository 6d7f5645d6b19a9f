//! Which addresses are public.
//!
//! A policy is read on machines that do not have the worker's proxy, so this repeats the proxy's rule
//! (`egress::policy::is_public`). `policies_and_the_proxy_agree_which_addresses_are_public` in the worker compares both.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 networks that are not part of the internet, from the registry of special-purpose addresses
/// (<https://www.iana.org/assignments/iana-ipv4-special-registry>), with the metadata services of clouds.
const NOT_PUBLIC: [([u8; 4], u32); 16] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([168, 63, 129, 16], 32),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

/// IPv6: the range of public addresses, without protocol assignments, documentation and 6to4.
const GLOBAL_V6: (u16, u32) = (0x2000, 3);
const NOT_PUBLIC_V6: [([u16; 2], u32); 4] =
    [([0x2001, 0], 23), ([0x2001, 0xdb8], 32), ([0x2002, 0], 16), ([0x3fff, 0], 20)];

/// Translation to IPv4 by the network (RFC 6052).
const NAT64: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];

pub(super) fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) if address.segments().starts_with(&NAT64) => {
            let [.., a, b, c, d] = address.octets();
            is_public_v4(Ipv4Addr::new(a, b, c, d))
        }
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    let is_in = |(first, length): &([u8; 4], u32)| (bits ^ u32::from_be_bytes(*first)) >> (32 - length) == 0;
    !NOT_PUBLIC.iter().any(is_in)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let bits = address.to_bits();
    let is_in = |[first, second]: [u16; 2], length: u32| {
        let first = (u128::from(first) << 112) | (u128::from(second) << 96);
        (bits ^ first) >> (128 - length) == 0
    };
    let (global, length) = GLOBAL_V6;
    is_in([global, 0], length) && !NOT_PUBLIC_V6.iter().any(|(first, length)| is_in(*first, *length))
}

//! Which addresses are public.
//!
//! From the registries of special-purpose addresses:
//! <https://www.iana.org/assignments/iana-ipv4-special-registry> and
//! <https://www.iana.org/assignments/iana-ipv6-special-registry>.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses that are not reachable from the internet, besides private ones: first address and prefix length.
const RESERVED: [(Ipv4Addr, u32); 13] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Link-local, with the metadata services of most clouds.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
    // Azure's virtual public address of the host: <https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16>
    (Ipv4Addr::new(168, 63, 129, 16), 32),
    // Metadata service of Alibaba Cloud, in the range of carrier-grade NAT.
    (Ipv4Addr::new(100, 100, 100, 200), 32),
];

/// Private networks, and carrier-grade NAT.
const PRIVATE: [(Ipv4Addr, u32); 4] = [
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
];

/// Parts of the global unicast range `2000::/3` that are not public.
const RESERVED_V6: [(Ipv6Addr, u32); 4] = [
    // Protocol assignments: Teredo, benchmarking, ORCHID.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    // 6to4 contains an IPv4 address. It is obsolete, so all of it is denied.
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
const UNIQUE_LOCAL: (Ipv6Addr, u32) = (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7);
/// With the metadata service of AWS, `fd00:ec2::254`.
const METADATA_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0), 32);
/// Translation to IPv4 by the network (RFC 6052).
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// Whether an address is one of a host on the internet. IPv6 addresses that stand for an IPv4 address are classified by it.
pub fn is_public(address: IpAddr) -> bool {
    match embedded(address) {
        IpAddr::V4(address) => !within(address, &RESERVED) && !within(address, &PRIVATE),
        IpAddr::V6(address) => within_v6(address, &[GLOBAL_V6]) && !within_v6(address, &RESERVED_V6),
    }
}

/// Whether an address is one of a private network: RFC 1918, carrier-grade NAT or unique local. Never one of this host,
/// of its link, or of a metadata service.
pub fn is_private_use(address: IpAddr) -> bool {
    match embedded(address) {
        IpAddr::V4(address) => within(address, &PRIVATE) && !within(address, &RESERVED),
        IpAddr::V6(address) => within_v6(address, &[UNIQUE_LOCAL]) && !within_v6(address, &[METADATA_V6]),
    }
}

/// The IPv4 address that the network or the system uses for an IPv6 address, or the address itself.
fn embedded(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if within_v6(address, &[NAT64]) => {
            let [.., a, b, c, d] = address.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        canonical => canonical,
    }
}

fn within(address: Ipv4Addr, ranges: &[(Ipv4Addr, u32)]) -> bool {
    let mask = |length: u32| u32::MAX << (32 - length);
    ranges.iter().any(|(first, length)| address.to_bits() & mask(*length) == first.to_bits())
}

fn within_v6(address: Ipv6Addr, ranges: &[(Ipv6Addr, u32)]) -> bool {
    let mask = |length: u32| u128::MAX << (128 - length);
    ranges.iter().any(|(first, length)| address.to_bits() & mask(*length) == first.to_bits())
}

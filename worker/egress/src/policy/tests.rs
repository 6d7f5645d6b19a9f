use super::*;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

fn policy(text: &str) -> NetworkPolicy {
    NetworkPolicy::parse(text).unwrap()
}

fn check(policy: &NetworkPolicy, host: &str, port: u16) -> Result<Addresses, Denial> {
    policy.check(&Target::parse(host, port).unwrap_or_else(|_| panic!("{host} is a target")))
}

#[test]
fn only_addresses_of_the_internet_are_public() {
    for (address, public) in [
        ("1.1.1.1", true),
        ("140.82.121.4", true),
        ("172.15.255.255", true),
        ("172.32.0.0", true),
        ("100.63.255.255", true),
        ("100.128.0.0", true),
        ("169.253.0.1", true),
        ("198.17.0.1", true),
        ("223.255.255.255", true),
        ("2606:4700:4700::1111", true),
        ("2a00:1450:4001::200e", true),
        ("64:ff9b::1.1.1.1", true),
        ("::ffff:1.1.1.1", true),
        ("0.0.0.0", false),
        ("0.1.2.3", false),
        ("10.0.0.1", false),
        ("100.64.0.1", false),
        ("100.127.255.255", false),
        ("127.0.0.1", false),
        ("127.255.255.254", false),
        ("168.63.129.16", false),
        ("169.254.169.254", false),
        ("172.16.0.1", false),
        ("172.31.255.255", false),
        ("192.0.0.192", false),
        ("192.0.2.1", false),
        ("192.168.1.1", false),
        ("198.18.0.1", false),
        ("198.19.255.255", false),
        ("198.51.100.1", false),
        ("203.0.113.1", false),
        ("224.0.0.1", false),
        ("255.255.255.255", false),
        ("::", false),
        ("::1", false),
        ("::127.0.0.1", false),
        ("::ffff:127.0.0.1", false),
        ("::ffff:169.254.169.254", false),
        ("::ffff:0:127.0.0.1", false),
        ("64:ff9b::10.0.0.1", false),
        ("64:ff9b::169.254.169.254", false),
        ("64:ff9b:1::1.1.1.1", false),
        ("100::1", false),
        ("2001::1", false),
        ("2001:2::1", false),
        ("2001:db8::1", false),
        ("2002:7f00:1::", false),
        ("2002:a9fe:a9fe::", false),
        ("3fff::1", false),
        ("5f00::1", false),
        ("fc00::1", false),
        ("fd00:ec2::254", false),
        ("fe80::1", false),
        ("fec0::1", false),
        ("ff02::1", false),
    ] {
        assert_eq!(is_public(address.parse().unwrap()), public, "{address}");
    }
}

#[test]
fn private_addresses_exclude_loopback_link_local_and_metadata() {
    for (address, private) in [
        ("10.0.0.1", true),
        ("172.16.0.1", true),
        ("192.168.1.1", true),
        ("100.64.0.1", true),
        ("fd12:3456::1", true),
        ("::ffff:10.0.0.1", true),
        ("100.100.100.200", false),
        ("127.0.0.1", false),
        ("169.254.169.254", false),
        ("fd00:ec2::254", false),
        ("fe80::1", false),
        ("1.1.1.1", false),
    ] {
        assert_eq!(is_private_use(address.parse().unwrap()), private, "{address}");
    }
}

#[test]
fn every_spelling_of_a_loopback_address_is_denied() {
    for host in [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0X7F.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.0x1",
        "１２７.0.0.1",
        "127。0。0。1",
        "%31%32%37.0.0.1",
        "0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:0:0:1]",
    ] {
        assert_eq!(check(&NetworkPolicy::Public, host, 80), Err(Denial::NotPublic), "{host}");
    }
    for host in ["127.0.0.256", "0x100000000", "1.2.3.4.5", "[::1%25lo]", "[fe80::1%eth0]", "::1"] {
        assert_eq!(Target::parse(host, 80), Err(InvalidTarget), "{host}");
    }
}

#[test]
fn host_with_other_characters_than_those_of_a_name_is_invalid() {
    for host in [
        "",
        ".",
        "..",
        "a..b",
        "example.com..",
        "user@example.com",
        "example.com/path",
        "example.com\\@evil.example",
        "example.com#",
        "example.com?",
        "exa mple.com",
        "example.com\0.evil.example",
        "example.com%00.evil.example",
        "example.com%2eevil",
        "*.example.com",
        "a,b",
    ] {
        if let Ok(target) = Target::parse(host, 80) {
            // The URL standard decodes percent signs first, which leaves a plain name.
            assert_eq!(target.name(), Some("example.com.evil"), "{host}");
        }
    }
    assert_eq!(Target::parse("example.com", 0), Err(InvalidTarget));
}

#[test]
fn allowlist_matches_names_regardless_of_spelling() {
    let list = policy("Example.com, *.Packages.example., bücher.example");
    for (host, port, allowed) in [
        ("example.com", 443, true),
        ("EXAMPLE.com.", 80, true),
        ("example.com", 22, false),
        ("www.example.com", 443, false),
        ("example.com.evil.example", 443, false),
        ("evilexample.com", 443, false),
        ("a.packages.example", 443, true),
        ("a.b.packages.example", 443, true),
        ("packages.example", 443, false),
        ("evilpackages.example", 443, false),
        ("xn--bcher-kva.example", 443, true),
        ("BÜCHER.example", 443, true),
        ("1.1.1.1", 443, false),
    ] {
        assert_eq!(check(&list, host, port).is_ok(), allowed, "{host}:{port}");
    }
}

#[test]
fn named_host_may_be_private_but_never_this_host() {
    let list = policy("registry.corp:5000 *.corp:5000");
    assert_eq!(check(&list, "registry.corp", 5000), Ok(Addresses::Private));
    assert_eq!(check(&list, "other.corp", 5000), Ok(Addresses::Public));
    let private = [Ipv4Addr::new(10, 0, 0, 7).into()];
    assert_eq!(Addresses::Private.check(private), Ok(()));
    assert_eq!(Addresses::Public.check(private), Err(Denial::NotPublic));
    for address in ["127.0.0.1", "::1", "169.254.169.254", "fe80::1"] {
        let addresses = [address.parse().unwrap()];
        assert_eq!(Addresses::Private.check(addresses), Err(Denial::NotPublic), "{address}");
    }
}

#[test]
fn address_that_the_operator_names_is_allowed_with_its_port() {
    let list = policy("127.0.0.1:4873, [::1]:80, localhost:8080");
    for (host, port, allowed) in [
        ("127.0.0.1", 4873, true),
        ("0x7f.1", 4873, true),
        ("[::ffff:127.0.0.1]", 4873, true),
        ("127.0.0.1", 4874, false),
        ("127.0.0.2", 4873, false),
        ("[::1]", 80, true),
        ("LOCALHOST.", 8080, true),
        ("localhost", 4873, false),
    ] {
        assert_eq!(check(&list, host, port).is_ok(), allowed, "{host}:{port}");
    }
    assert_eq!(check(&list, "localhost", 8080), Ok(Addresses::Any));
}

#[test]
fn one_private_address_of_a_name_denies_it() {
    let addresses = ["1.1.1.1", "127.0.0.1"].map(|address| address.parse().unwrap());
    assert_eq!(Addresses::Public.check(addresses), Err(Denial::NotPublic));
}

#[test]
fn policy_is_parsed_from_one_line() {
    for (text, shown) in [
        ("", "public"),
        (" public ", "public"),
        ("none", "none"),
        ("github.com,*.npmjs.org localhost:4873", "github.com, *.npmjs.org, localhost:4873"),
        ("[::1]:80,10.0.0.1", "[::1]:80, 10.0.0.1"),
    ] {
        assert_eq!(policy(text).to_string(), shown, "{text:?}");
    }
    for text in ["*", "*.", "*.1.2.3.4", "a.*.b", "https://github.com", "host:0", "host:port", "a b@c"] {
        assert!(NetworkPolicy::parse(text).is_err(), "{text}");
    }
    assert_eq!(check(&policy("none"), "1.1.1.1", 443), Err(Denial::Off));
    assert_eq!(check(&policy("example.com"), "1.1.1.1", 443), Err(Denial::NotListed));
}

proptest! {
    /// An independent definition, from the standard library's.
    #[test]
    fn no_private_ipv4_address_is_public(bits: u32) {
        let address = Ipv4Addr::from_bits(bits);
        let is_special = address.is_private() || address.is_loopback() || address.is_link_local()
            || address.is_multicast() || address.is_broadcast() || address.is_documentation()
            || address.is_unspecified();
        prop_assert!(!(is_special && is_public(address.into())));
        prop_assert_eq!(is_public(address.into()), is_public(address.to_ipv6_mapped().into()));
        let [a, b, c, d] = address.octets();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let translated = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low);
        prop_assert_eq!(is_public(address.into()), is_public(translated.into()));
        prop_assert!(!is_public(Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1).into()));
    }

    #[test]
    fn no_local_ipv6_address_is_public(bits: u128) {
        let address = Ipv6Addr::from_bits(bits);
        let is_special = address.is_loopback() || address.is_unspecified() || address.is_multicast()
            || address.is_unique_local() || address.is_unicast_link_local();
        prop_assert!(!(is_special && is_public(address.into())));
    }

    /// Decimal, hexadecimal and octal spellings are the same target.
    #[test]
    fn spelling_of_an_address_does_not_matter(bits: u32) {
        let address = Ipv4Addr::from_bits(bits);
        let [a, b, c, d] = address.octets();
        for spelling in [
            address.to_string(),
            bits.to_string(),
            format!("{bits:#x}"),
            format!("0{bits:o}"),
            format!("{a:#x}.0{b:o}.{}", u16::from_be_bytes([c, d])),
            format!("[::ffff:{address}]"),
        ] {
            let target = Target::parse(&spelling, 80);
            prop_assert_eq!(target.map(|target| target.address()), Ok(Some(IpAddr::V4(address))), "{}", spelling);
        }
    }

    #[test]
    fn hostile_text_never_panics(host in ".{0,40}", port: u16) {
        if let Ok(target) = Target::parse(&host, port) {
            let again = Target::parse(&target.host(), target.port());
            prop_assert_eq!(again.map(|again| again.to_string()), Ok(target.to_string()));
        }
        let _ = NetworkPolicy::parse(&host);
    }

    /// What the policy compares is what is resolved: the name in the list, in any case and with a final dot.
    #[test]
    fn only_names_below_a_pattern_match_it(prefix in "[a-zA-Z0-9.-]{0,20}") {
        let list = NetworkPolicy::parse("*.example.com").unwrap();
        if let Ok(target) = Target::parse(&format!("{prefix}example.com"), 443) {
            let allowed = list.check(&target).is_ok();
            prop_assert_eq!(allowed, prefix.ends_with('.') && prefix.len() > 1);
        }
    }
}

#[test]
fn public_entries_and_public_hosts_exclude_private_addresses() {
    let list = |text: &str| Allowlist::parse(text).unwrap();
    let only_public = NetworkPolicy::Allowlist(list("a.example, localhost:80, 10.0.0.7").only_public());
    assert_eq!(check(&only_public, "a.example", 443), Ok(Addresses::Public));
    assert_eq!(check(&only_public, "localhost", 80), Ok(Addresses::Public));
    assert_eq!(check(&only_public, "10.0.0.7", 80), Err(Denial::NotPublic));
    let mixed = NetworkPolicy::Allowlist(list("registry.example:5000").with_every_public_host());
    assert_eq!(check(&mixed, "registry.example", 5000), Ok(Addresses::Private));
    assert_eq!(check(&mixed, "registry.example", 443), Ok(Addresses::Public));
    assert_eq!(check(&mixed, "other.example", 22), Ok(Addresses::Public));
    assert_eq!(check(&mixed, "10.0.0.7", 80), Err(Denial::NotPublic));
    assert_eq!(mixed.to_string(), "public, registry.example:5000");
}

#[test]
fn ports_of_the_loopback_are_those_that_the_operator_lists() {
    let list = |text: &str| Allowlist::parse(text).unwrap();
    let own = list("localhost:4873, 127.0.0.1:5000 [::1]:5001 localhost example.com:6000 10.0.0.1:7000");
    assert_eq!(own.loopback_ports().collect::<Vec<_>>(), [4873, 5000, 5001]);
    assert_eq!(own.only_public().loopback_ports().count(), 0);
}

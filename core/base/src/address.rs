//! Who a peer is, for shares and caps.

use std::net::{IpAddr, Ipv6Addr};

/// The address that a peer is counted as: its own, or the /64 of an IPv6 one, which is what one host has.
/// An IPv4 address that came in an IPv6 one is the same peer as without it.
pub fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_ipv6_is_one_peer_and_so_is_an_address_of_ipv4() {
        let cases = [
            ("10.0.0.1", "10.0.0.1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2::", "2001:db8:1:2::"),
            ("2001:db8:1:3::6", "2001:db8:1:3::"),
            ("::1", "::"),
        ];
        for (address, counted) in cases {
            let [address, counted] = [address, counted].map(|text| text.parse().expect("an address"));
            assert_eq!(counted_as(address), counted, "{address}");
        }
    }
}

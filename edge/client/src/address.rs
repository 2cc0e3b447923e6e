//! Bootstrap servers as people write them.

use client_core::Address;

/// Why addresses cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// There is none.
    #[error("there is no broker to connect to: name one as host:port")]
    None,
    /// One is not an address.
    #[error("{0:?} is not an address: write host:port, or [address]:port for IPv6")]
    Wrong(String),
}

/// Reads `host:port`, or several of them between commas.
pub(crate) fn parse(text: &str) -> Result<Vec<Address>, AddressError> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let addresses: Vec<Address> = parts.map(parse_one).collect::<Result<_, _>>()?;
    if addresses.is_empty() { Err(AddressError::None) } else { Ok(addresses) }
}

fn parse_one(text: &str) -> Result<Address, AddressError> {
    let wrong = || AddressError::Wrong(text.chars().take(200).collect());
    // Java's clients allow a listener's name in front.
    let bare = text.rsplit("://").next().unwrap_or(text);
    let (host, port) = bare.rsplit_once(':').ok_or_else(wrong)?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = port.parse().map_err(|_| wrong())?;
    if host.is_empty() || port == 0 { Err(wrong()) } else { Ok(Address { host: host.into(), port }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        let read =
            |text| parse(text).map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
        assert_eq!(read("a:1, [::1]:2,PLAINTEXT://b:3,"), Ok("a:1 [::1]:2 b:3".to_owned()));
        assert_eq!(read(" , "), Err(AddressError::None));
        for wrong in ["a", "a:", ":1", "a:b", "a:0", "a:65536"] {
            assert_eq!(read(wrong), Err(AddressError::Wrong(wrong.to_owned())));
        }
    }
}

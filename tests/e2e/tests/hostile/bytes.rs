//! Bytes that are no requests, or requests that nobody serves.

use anyhow::{Context, Result, ensure};
use vltava_e2e::{Chance, process};
use wire::ApiKey;

use crate::target::{ANSWER_MAX, FRAME_BYTES_MAX, Target, frame, hex, request};

/// Connections that declare the longest frame and send nothing of it.
const DECLARED: usize = 400;
/// What they may cost in all: some buffers, not what they declare.
const DECLARED_BYTES_MAX: u64 = 32 << 20;

/// Lengths that are allowed cost nothing until bytes come; others end the connection.
pub(crate) fn lengths(target: &Target, chance: &mut Chance) -> Result<()> {
    let before = process::taken(target.pid)?.resident;
    let mut open = Vec::new();
    for _ in 0..DECLARED {
        let mut attacker = target.connect()?;
        attacker.send(&FRAME_BYTES_MAX.to_be_bytes());
        attacker.send(&chance.bytes(16));
        open.push(attacker);
    }
    for length in [0, -1, i32::MIN, i32::MAX, FRAME_BYTES_MAX + 1] {
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend(chance.bytes(64));
        let answer = target.send_and_see(&bytes).with_context(|| format!("a length of {length}"))?;
        ensure!(answer.is_empty(), "a length of {length} is answered: {}", hex(&answer));
    }
    let grown = process::taken(target.pid)?.resident.saturating_sub(before);
    ensure!(grown < DECLARED_BYTES_MAX, "{DECLARED} declared frames cost {grown} bytes");
    for attacker in &mut open {
        attacker.end();
    }
    for mut attacker in open {
        attacker.until_closed(ANSWER_MAX).context("a frame that was given up")?;
    }
    Ok(())
}

const TLS_HELLO: &[u8] = &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0x55, 0x55, 0x55, 0x55];

/// What ended up at the wrong port is closed, and so is Kafka at the port for HTTP.
pub(crate) fn protocols(target: &Target, chance: &mut Chance) -> Result<()> {
    let kafka = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".as_slice(),
        b"POST /topics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"\x03\x00\x00\x13\x0e\xe0\x00\x00\x00\x00\x00\x01\x00\x08\x00\x03\x00\x00\x00",
        b"*1\r\n$4\r\nPING\r\n",
        TLS_HELLO,
    ];
    for bytes in kafka {
        let mut attacker = target.connect()?;
        attacker.send(bytes);
        // Some begin with bytes that could be the length of a frame; with its end it is known that they are not.
        attacker.end();
        let answer = attacker.until_closed(ANSWER_MAX).with_context(|| hex(bytes))?;
        ensure!(answer.is_empty(), "{} is answered: {}", hex(bytes), hex(&answer));
    }
    for bytes in [request(18, 0, false, &[]), TLS_HELLO.to_vec(), chance.bytes(5_000)] {
        let mut attacker = std::net::TcpStream::connect(target.http)?;
        attacker.set_read_timeout(Some(ANSWER_MAX))?;
        let mut answer = Vec::new();
        // It may be closed before all is written.
        let _ = std::io::Write::write_all(&mut attacker, &bytes);
        let _ = attacker.shutdown(std::net::Shutdown::Write);
        let read = std::io::Read::read_to_end(&mut attacker, &mut answer);
        let is_late = read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        ensure!(!is_late, "HTTP waits for more than {}", hex(&bytes));
    }
    Ok(())
}

/// What is not served ends the connection without a word, save ApiVersions, which says what it knows.
pub(crate) fn versions(target: &Target, _: &mut Chance) -> Result<()> {
    let mut wrong: Vec<(i16, i16, bool)> = Vec::new();
    for key in [i16::MIN, -1, 4, 5, 6, 7, 95, 1_000, i16::MAX] {
        wrong.extend([(key, 0, false), (key, 3, true)]);
    }
    for key in ApiKey::ALL.iter().filter(|key| **key != ApiKey::ApiVersions) {
        let last = *key.versions_with_unstable().end();
        for version in [-1, i16::MIN, last + 1, i16::MAX] {
            wrong.push((key.code(), version, key.is_flexible(version)));
        }
        if *key.versions().start() > 0 {
            wrong.push((key.code(), *key.versions().start() - 1, false));
        }
        if !key.listeners().broker {
            wrong.push((key.code(), last, key.is_flexible(last)));
        }
    }
    // Advertised for the sake of old clients, but not there.
    wrong.extend([(0, 0, false), (0, 1, false), (0, 2, false)]);
    for (key, version, is_flexible) in wrong {
        let bytes = request(key, version, is_flexible, &[0; 64]);
        let answer = target.send_and_see(&bytes).with_context(|| format!("key {key}, version {version}"))?;
        ensure!(answer.is_empty(), "key {key}, version {version} is answered: {}", hex(&answer));
    }
    let mut attacker = target.connect()?;
    for version in [6, 99, i16::MAX] {
        attacker.send(&request(18, version, false, &[0; 10]));
        let answer = attacker.answer().with_context(|| format!("ApiVersions {version}"))?;
        // Error 35 and one entry: ApiVersions from 0 to 5, in version 0.
        let expected = [0, 0, 0, 7, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 5];
        ensure!(answer == expected, "ApiVersions {version}: {}", hex(&answer));
    }
    // And goes on with what it knows.
    attacker.send(&frame(&[0, 18, 0, 0, 0, 0, 0, 8, 0xff, 0xff]));
    let answer = attacker.answer()?;
    ensure!(answer.starts_with(&[0, 0, 0, 8, 0, 0]), "ApiVersions 0 after that: {}", hex(&answer));
    Ok(())
}

//! The same key goes to the same partition, whichever client writes it.

use anyhow::{Result, ensure};
use sha2::{Digest, Sha256};

use crate::matrix::Client;
use crate::record::Bytes;
use crate::suite::{Suite, topic};

/// No power of two, so that all bits of a hash count.
const PARTITIONS: i32 = 7;
/// A hash takes four bytes at a time, and what is left apart.
const BYTES_MAX: u64 = 40;
const COUNT: u64 = 2000;

/// A client puts keys where another one puts them.
pub fn keys(suite: &Suite, client: &Client, model: &Client) -> Result<()> {
    let topic = topic("keys", client);
    let keys: Vec<Bytes> = (0..COUNT).map(key).collect();
    let placed = suite.tell(client, |driver| {
        suite.create(driver, &topic, PARTITIONS, &[])?;
        driver.place(&topic, &keys)
    })?;
    let wanted = suite.tell(model, |driver| driver.place(&topic, &keys))?;
    ensure!(wanted.len() == keys.len(), "{} puts only {} keys", model.name, wanted.len());
    ensure!((0..PARTITIONS).all(|partition| wanted.contains(&partition)), "a partition has no key");
    for (key, (placed, wanted)) in keys.iter().zip(placed.iter().zip(&wanted)) {
        ensure!(placed == wanted, "{key:?} is put into {placed}, by {} into {wanted}", model.name);
    }
    ensure!(placed.len() == keys.len(), "{} puts only {} keys", client.name, placed.len());
    Ok(())
}

/// Bytes of any value, from none on.
fn key(number: u64) -> Bytes {
    let bytes = Sha256::digest(number.to_be_bytes());
    Bytes(bytes.iter().copied().cycle().take((number % BYTES_MAX) as usize).collect())
}

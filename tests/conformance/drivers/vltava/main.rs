//! Our own client, as one of those that the suite drives. Speaks `../PROTOCOL.md`.

mod member;

use std::env;
use std::io::{self, BufRead, Write};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base::{Offset, TimestampMs};
use client::admin::{At, NewTopic};
use client::consumer::{Consumer, Reset, Start};
use client::producer::{self, Acks, Producer};
use client::{Admin, Compression, Header, Scratch};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use vltava_conformance::record::{Bytes, Digest, Many, Record, Stored};

use member::Member;

/// No command of the suite needs as long.
const PATIENCE: Duration = Duration::from_secs(90);
/// Above every record of the suite.
const FETCH_BYTES_MAX: i32 = 4 << 20;

struct Driver {
    bootstrap: String,
    client_id: String,
    member: Option<Member>,
}

fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let mut driver = Driver {
        bootstrap: arguments.next().context("argument 1 is the bootstrap address")?,
        client_id: arguments.next().context("argument 2 is the client id")?,
        member: None,
    };
    let mut out = io::stdout().lock();
    writeln!(out, "{}", json!({"ready": concat!("vltava-client ", env!("CARGO_PKG_VERSION"))}))?;
    for line in io::stdin().lock().lines() {
        let answer =
            serde_json::from_str(&line?).map_err(Into::into).and_then(|command| driver.run(&command));
        let answer = answer.unwrap_or_else(|error| json!({"error": format!("{error:#}")}));
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

impl Driver {
    fn run(&mut self, command: &Value) -> Result<Value> {
        match command["op"].as_str().unwrap_or_default() {
            "create" => self.create(command),
            "metadata" => self.metadata(command),
            "produce" => self.produce(command),
            "produce_many" => self.produce_many(command),
            "place" => self.place(command),
            "consume" => self.consume(command),
            "consume_many" => self.consume_many(command),
            "offset_for_time" => self.offset_for_time(command),
            "offsets" => self.offsets(command),
            "join" => {
                let builder = Consumer::builder(&self.bootstrap).client_id(&self.client_id);
                self.member = Some(Member::join(builder, command)?);
                Ok(json!({}))
            }
            "member" => self.member()?.seen(),
            "commit" => self.member()?.commit(command),
            "leave" => self.member()?.leave(),
            "committed" => self.committed(command),
            unknown => bail!("unknown op {unknown:?}"),
        }
    }

    fn admin(&self) -> Result<Admin> {
        Ok(Admin::builder(&self.bootstrap).client_id(&self.client_id).build()?)
    }

    fn create(&self, command: &Value) -> Result<Value> {
        let configs: serde_json::Map<String, Value> = field(command, "configs")?;
        let text = |(name, value): (String, Value)| (name, value.as_str().unwrap_or_default().to_owned());
        let topic = NewTopic {
            name: field(command, "topic")?,
            partitions: Some(field(command, "partitions")?),
            replication_factor: None,
            configs: configs.into_iter().map(text).collect(),
            ..NewTopic::default()
        };
        self.admin()?.create_topic(topic).wait()?;
        Ok(json!({}))
    }

    fn metadata(&self, command: &Value) -> Result<Value> {
        let topic: String = field(command, "topic")?;
        let found = self.admin()?.describe_topic(topic).wait()?;
        Ok(json!({"partitions": found.partitions.len()}))
    }

    fn produce(&self, command: &Value) -> Result<Value> {
        let records: Vec<Record> = field(command, "records")?;
        Ok(json!({"offsets": self.send(command, records.into_iter())?}))
    }

    fn produce_many(&self, command: &Value) -> Result<Value> {
        let many: Many = Many::deserialize(command)?;
        let offsets = self.send(command, (0..many.count).map(|index| many.record(index)))?;
        Ok(json!({"first": offsets.first(), "last": offsets.last()}))
    }

    fn producer(&self, command: &Value) -> Result<Producer> {
        let acks = match command["acks"].as_str() {
            Some("0") => Acks::None,
            Some("1") => Acks::Leader,
            _ => Acks::All,
        };
        let compression: String = field(command, "compression")?;
        let compression = compression.parse::<Compression>()?;
        let mut builder = Producer::builder(&self.bootstrap).client_id(&self.client_id);
        if let Some(limit) = command["batch_bytes_max"].as_u64() {
            builder = builder.batch_bytes_max(limit as usize).request_bytes_max(limit as usize);
        }
        let builder = builder.acks(acks).idempotence(field(command, "idempotent")?);
        Ok(builder.compression(compression, None).build()?)
    }

    /// Offsets in the order of the records.
    fn send(&self, command: &Value, records: impl Iterator<Item = Record>) -> Result<Vec<Option<i64>>> {
        let producer = self.producer(command)?;
        let (topic, partition): (String, i32) = (field(command, "topic")?, field(command, "partition")?);
        let mut deliveries = Vec::new();
        for record in records {
            let headers: Vec<_> = record.headers.iter().map(header).collect();
            let mut sent = producer::Record::to(&topic).partition(partition).headers(&headers);
            if let Some(Bytes(key)) = &record.key {
                sent = sent.key(key);
            }
            if let Some(Bytes(value)) = &record.value {
                sent = sent.value(value);
            }
            if let Some(timestamp) = record.timestamp {
                sent = sent.timestamp_ms(timestamp);
            }
            deliveries.push(producer.send_blocking(&sent)?);
        }
        let offset = |delivery: producer::Delivery| Ok(delivery.wait()?.offset.map(|offset| offset.0));
        let offsets = deliveries.into_iter().map(offset).collect::<Result<_>>()?;
        ensure!(producer.close_blocking(PATIENCE) == 0, "not all was acknowledged");
        Ok(offsets)
    }

    fn place(&self, command: &Value) -> Result<Value> {
        let (topic, keys): (String, Vec<Bytes>) = (field(command, "topic")?, field(command, "keys")?);
        let producer = Producer::builder(&self.bootstrap).client_id(&self.client_id).build()?;
        let send = |Bytes(key): &Bytes| producer.send_blocking(&producer::Record::to(&topic).key(key));
        let deliveries = keys.iter().map(send).collect::<Result<Vec<_>, _>>()?;
        let partition = |delivery: producer::Delivery| Ok(delivery.wait()?.partition.0);
        let partitions = deliveries.into_iter().map(partition).collect::<Result<Vec<_>>>()?;
        Ok(json!({"partitions": partitions}))
    }

    fn consume(&self, command: &Value) -> Result<Value> {
        let mut records = Vec::new();
        self.read(command, |stored| records.push(stored))?;
        Ok(json!({"records": records}))
    }

    fn consume_many(&self, command: &Value) -> Result<Value> {
        let (mut digest, mut first, mut last, mut count) = (Digest::default(), None, None, 0);
        self.read(command, |Stored { offset, record }| {
            digest.add(offset, record.key.as_ref(), record.value.as_ref());
            first = first.or(Some(offset));
            last = Some(offset);
            count += 1;
        })?;
        Ok(json!({"first": first, "last": last, "count": count, "digest": digest.hex()}))
    }

    /// Reads as many records as the command says.
    fn read(&self, command: &Value, mut each: impl FnMut(Stored)) -> Result<()> {
        let (topic, partition): (String, i32) = (field(command, "topic")?, field(command, "partition")?);
        let start = match command["offset"].as_i64() {
            Some(offset) => Start::Offset(Offset(offset)),
            None => Start::Time(TimestampMs(field(command, "timestamp")?)),
        };
        let builder = Consumer::builder(&self.bootstrap).client_id(&self.client_id).reset(Reset::None);
        let isolation = command["isolation"].as_str().unwrap_or("read_uncommitted");
        let builder = builder.set("isolation.level", isolation)?;
        let mut consumer = builder.partition_bytes_max(FETCH_BYTES_MAX).build()?;
        consumer.assign([(&*topic, partition, start)]);
        let (mut left, mut scratch) = (field::<usize>(command, "count")?, Scratch::default());
        while left > 0 {
            let batch = consumer.next_batch_within(PATIENCE)?;
            let batch = batch.with_context(|| format!("{left} records did not come"))?;
            let header = *batch.header();
            for record in batch.records(&mut scratch)?.take(left) {
                let record = record?;
                let bytes = |part: Option<&[u8]>| part.map(|part| Bytes(part.to_vec()));
                let header_of =
                    |header: Header<'_>| Ok((String::from_utf8(header.key.to_vec())?, bytes(header.value)));
                let read = Record {
                    key: bytes(record.key),
                    value: bytes(record.value),
                    headers: record.headers.map(header_of).collect::<Result<_>>()?,
                    timestamp: Some(record.timestamp(&header).0),
                };
                each(Stored { offset: record.offset(&header).0, record: read });
                left -= 1;
            }
        }
        Ok(())
    }

    /// The offset of a place in the partition; `None` if there is no such record.
    fn offset(&self, command: &Value, at: At) -> Result<Option<i64>> {
        let topic: String = field(command, "topic")?;
        let place = (topic, field(command, "partition")?, at);
        let found = self.admin()?.list_offsets([place]).wait();
        let found = found.into_iter().next().context("nothing is said about the partition")??;
        Ok(found.offset.map(|offset| offset.0))
    }

    fn member(&self) -> Result<&Member> {
        self.member.as_ref().context("it has joined no group")
    }

    fn committed(&self, command: &Value) -> Result<Value> {
        let (group, topic): (String, String) = (field(command, "group")?, field(command, "topic")?);
        let partitions = 0..field::<i32>(command, "partitions")?;
        let builder = Consumer::builder(&self.bootstrap).client_id(&self.client_id).group_id(&group);
        let found = builder.build()?.committed(partitions.map(|index| (&*topic, index))).wait()?;
        // They are of one topic, so that they are ordered by partition.
        let offsets = found.values().map(|place| place.as_ref().map(|place| place.offset.0));
        Ok(json!({"offsets": offsets.collect::<Vec<_>>()}))
    }

    fn offset_for_time(&self, command: &Value) -> Result<Value> {
        let time = TimestampMs(field(command, "timestamp")?);
        Ok(json!({"offset": self.offset(command, At::Time(time))?}))
    }

    fn offsets(&self, command: &Value) -> Result<Value> {
        let (start, end) = (self.offset(command, At::Earliest)?, self.offset(command, At::Latest)?);
        Ok(json!({"start": start, "end": end}))
    }
}

fn header((name, value): &(String, Option<Bytes>)) -> Header<'_> {
    Header { key: name.as_bytes(), value: value.as_ref().map(|Bytes(value)| value.as_slice()) }
}

fn field<T: DeserializeOwned>(command: &Value, name: &str) -> Result<T> {
    T::deserialize(&command[name]).with_context(|| format!("{name} in {command}"))
}

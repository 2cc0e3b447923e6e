"""kafka-python, the client written in Python alone."""

import os
import sys
import time

# Its package is called kafka, like nothing here; this folder must not shadow it.
sys.path[0] = os.path.join(os.path.dirname(__file__), "..")
import driver
import member
import kafka
from kafka.admin import KafkaAdminClient
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

BASE = {"bootstrap_servers": sys.argv[1], "client_id": sys.argv[2]}
ACKS = {"0": 0, "1": 1, "all": "all"}
ASSIGNORS = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


def create(command):
    admin = KafkaAdminClient(**BASE)
    try:
        admin.create_topics(
            {
                command["topic"]: {
                    "num_partitions": command["partitions"],
                    "replication_factor": -1,
                    "configs": command["configs"],
                }
            },
            wait_for_metadata=True,
        )
    finally:
        admin.close()
    return {}


def reader():
    return kafka.KafkaConsumer(
        **BASE,
        enable_auto_commit=False,
        auto_offset_reset="none",
        max_partition_fetch_bytes=driver.FETCH_BYTES_MAX,
        fetch_max_wait_ms=100,
        max_poll_records=10_000,
    )


def metadata(command):
    consumer = reader()
    try:
        return {"partitions": len(consumer.partitions_for_topic(command["topic"]))}
    finally:
        consumer.close()


def send(command, records):
    """Offsets in the order of the records."""
    compression, limit = command["compression"], command.get("batch_bytes_max")
    producer = kafka.KafkaProducer(
        **BASE,
        acks=ACKS[command["acks"]],
        enable_idempotence=command["idempotent"],
        compression_type=None if compression == "none" else compression,
        **({"max_request_size": limit} if limit else {}),
        linger_ms=5,
    )
    try:
        sent = [
            producer.send(
                command["topic"],
                value,
                key,
                headers,
                command["partition"],
                timestamp,
            )
            for key, value, headers, timestamp in records
        ]
        producer.flush(timeout=driver.PATIENCE_S)
        offsets = [future.get(timeout=driver.PATIENCE_S).offset for future in sent]
    finally:
        producer.close()
    # Under acks=0 it makes offsets up.
    return [None] * len(offsets) if command["acks"] == "0" else offsets


def produce(command):
    return {"offsets": send(command, driver.spelled(command))}


def produce_many(command):
    offsets = send(command, driver.generated(command))
    return {"first": offsets[0], "last": offsets[-1]}


def place(command):
    producer = kafka.KafkaProducer(**BASE)
    try:
        sent = [producer.send(command["topic"], key=bytes.fromhex(key), value=b"") for key in command["keys"]]
        return {"partitions": [future.get(timeout=driver.PATIENCE_S).partition for future in sent]}
    finally:
        producer.close()


def partition_of(command):
    return kafka.TopicPartition(command["topic"], command["partition"])


def for_time(consumer, command):
    partition = partition_of(command)
    found = consumer.offsets_for_times({partition: command["timestamp"]})[partition]
    return None if found is None else found.offset


def read(command):
    consumer, partition = reader(), partition_of(command)
    try:
        consumer.assign([partition])
        offset = command.get("offset")
        consumer.seek(partition, for_time(consumer, command) if offset is None else offset)
        left, deadline = command["count"], driver.deadline()
        while left > 0 and time.monotonic() < deadline:
            records = consumer.poll(timeout_ms=1000, max_records=min(left, 10_000))
            for record in records.get(partition, []):
                left -= 1
                yield record.offset, record.timestamp, record.key, record.value, record.headers
    finally:
        consumer.close()


def offset_for_time(command):
    consumer = reader()
    try:
        return {"offset": for_time(consumer, command)}
    finally:
        consumer.close()


def offsets(command):
    consumer, partition = reader(), partition_of(command)
    try:
        start = consumer.beginning_offsets([partition])[partition]
        return {"start": start, "end": consumer.end_offsets([partition])[partition]}
    finally:
        consumer.close()


class Listener(kafka.ConsumerRebalanceListener):
    """Tells what is given and taken."""

    def __init__(self, seen):
        self.seen = seen

    def on_partitions_assigned(self, assigned):
        self.tell("assigned", assigned)

    def on_partitions_revoked(self, revoked):
        self.tell("revoked", revoked)

    def on_partitions_lost(self, lost):
        self.tell("lost", lost)

    def tell(self, what, partitions):
        self.seen.tell(what, [partition.partition for partition in partitions])


class Member:
    """A member of a group: see member.py."""

    def __init__(self, command, seen):
        self.topic, self.seen = command["topic"], seen
        self.consumer = kafka.KafkaConsumer(
            **BASE,
            group_id=command["group"],
            group_instance_id=command["instance"],
            partition_assignment_strategy=[ASSIGNORS[command["assignor"]]],
            session_timeout_ms=command["session_ms"],
            heartbeat_interval_ms=command["heartbeat_ms"],
            enable_auto_commit=False,
            auto_offset_reset=command["reset"],
            fetch_max_wait_ms=100,
        )
        self.consumer.subscribe([self.topic], listener=Listener(seen))
        # Of what it hears of its topics only once it has joined, it joins again. If that takes longer than a poll does,
        # kafka-python 3.0.12 takes itself for joined, reads nothing and says nothing, for ever. What it was told before
        # it was subscribed does not count.
        self.consumer.partitions_for_topic(self.topic)

    def poll(self):
        for records in self.consumer.poll(timeout_ms=int(member.POLL_S * 1000)).values():
            for record in records:
                self.seen.read(record.partition, record.offset)

    def commit(self, offsets):
        at = {
            kafka.TopicPartition(self.topic, partition): kafka.OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        self.consumer.commit(at)

    def close(self):
        self.consumer.close(autocommit=False)


def committed(command, partition):
    consumer = kafka.KafkaConsumer(**BASE, group_id=command["group"], enable_auto_commit=False)
    try:
        return consumer.committed(kafka.TopicPartition(command["topic"], partition))
    finally:
        consumer.close(autocommit=False)


driver.serve(
    f"kafka-python {kafka.__version__}",
    {
        "create": create,
        "metadata": metadata,
        "produce": produce,
        "produce_many": produce_many,
        "place": place,
        "consume": lambda command: driver.answer_records(read(command)),
        "consume_many": lambda command: driver.answer_digest(read(command)),
        "offset_for_time": offset_for_time,
        "offsets": offsets,
        **member.ops(Member, committed, driver.PATIENCE_S),
    },
)

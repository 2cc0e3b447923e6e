"""librdkafka, through confluent-kafka."""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import driver
import member
import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, NewTopic

BASE = {"bootstrap.servers": sys.argv[1], "client.id": sys.argv[2]}
admin = AdminClient(BASE)


def create(command):
    topic = NewTopic(command["topic"], command["partitions"], -1, config=command["configs"])
    for future in admin.create_topics([topic], operation_timeout=30).values():
        future.result()
    return {}


def metadata(command):
    topic = admin.list_topics(command["topic"], timeout=30).topics[command["topic"]]
    if topic.error is not None:
        raise ck.KafkaException(topic.error)
    return {"partitions": len(topic.partitions)}


def send(command, records):
    """Offsets in the order of the records."""
    limit = command.get("batch_bytes_max")
    producer = ck.Producer(
        {
            **BASE,
            **({"message.max.bytes": limit, "batch.size": limit} if limit else {}),
            "acks": command["acks"],
            "enable.idempotence": command["idempotent"],
            "compression.type": command["compression"],
            "queue.buffering.max.messages": 200_000,
            "linger.ms": 5,
        }
    )
    offsets, errors = [], []

    def delivered(error, message):
        if error is not None:
            errors.append(error)
        else:
            offset = message.offset()
            offsets.append(offset if offset is not None and offset >= 0 else None)

    for key, value, headers, timestamp in records:
        producer.produce(
            command["topic"],
            value,
            key,
            command["partition"],
            on_delivery=delivered,
            timestamp=timestamp or 0,
            headers=headers,
        )
        producer.poll(0)
    left = producer.flush(driver.PATIENCE_S)
    if errors:
        raise ck.KafkaException(errors[0])
    if left:
        raise TimeoutError(f"{left} records were not delivered")
    return offsets


def produce(command):
    return {"offsets": send(command, driver.spelled(command))}


def produce_many(command):
    offsets = send(command, driver.generated(command))
    return {"first": offsets[0], "last": offsets[-1]}


def place(command):
    # Its own partitioner hashes with CRC-32; this one is there to agree with Java.
    producer = ck.Producer({**BASE, "partitioner": "murmur2_random", "linger.ms": 5})
    placed, errors = {}, []

    def delivered_as(index):
        def delivered(error, message):
            if error is not None:
                errors.append(error)
            placed[index] = message.partition()

        return delivered

    for index, key in enumerate(command["keys"]):
        producer.produce(command["topic"], key=bytes.fromhex(key), on_delivery=delivered_as(index))
    producer.flush(driver.PATIENCE_S)
    if errors:
        raise ck.KafkaException(errors[0])
    return {"partitions": [placed[index] for index in range(len(command["keys"]))]}


def reader():
    return ck.Consumer(
        {
            **BASE,
            "group.id": "unused",  # librdkafka wants one even where none is joined
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.message.max.bytes": driver.FETCH_BYTES_MAX,
            "fetch.wait.max.ms": 100,
        }
    )


def for_time(consumer, command):
    at = ck.TopicPartition(command["topic"], command["partition"], command["timestamp"])
    return consumer.offsets_for_times([at], timeout=30)[0].offset


def read(command):
    consumer = reader()
    offset = command.get("offset")
    if offset is None:
        offset = for_time(consumer, command)
    consumer.assign([ck.TopicPartition(command["topic"], command["partition"], offset)])
    left, deadline = command["count"], driver.deadline()
    try:
        while left > 0 and time.monotonic() < deadline:
            for message in consumer.consume(min(left, 10_000), timeout=1):
                if message.error() is not None:
                    raise ck.KafkaException(message.error())
                left -= 1
                yield (
                    message.offset(),
                    message.timestamp()[1],
                    message.key(),
                    message.value(),
                    message.headers() or [],
                )
    finally:
        consumer.close()


def offset_for_time(command):
    consumer = reader()
    offset = for_time(consumer, command)
    consumer.close()
    return {"offset": offset if offset >= 0 else None}


def offsets(command):
    consumer = reader()
    partition = ck.TopicPartition(command["topic"], command["partition"])
    start, end = consumer.get_watermark_offsets(partition, timeout=30)
    consumer.close()
    return {"start": start, "end": end}


class Member:
    """A member of a group: see member.py."""

    def __init__(self, command, seen):
        self.topic, self.seen = command["topic"], seen
        settings = {
            **BASE,
            "group.id": command["group"],
            "group.protocol": command["protocol"],
            "enable.auto.commit": False,
            "auto.offset.reset": command["reset"],
            "fetch.wait.max.ms": 100,
        }
        if command["protocol"] == "classic":
            settings["partition.assignment.strategy"] = command["assignor"]
            settings["session.timeout.ms"] = command["session_ms"]
            settings["heartbeat.interval.ms"] = command["heartbeat_ms"]
        else:
            settings["group.remote.assignor"] = command["assignor"]
        if command["instance"] is not None:
            settings["group.instance.id"] = command["instance"]

        def tells(what):
            return lambda _, partitions: seen.tell(what, [partition.partition for partition in partitions])

        self.consumer = ck.Consumer(settings)
        # It knows a pattern by its first letter.
        pattern = command["pattern"]
        wanted = self.topic if pattern is None else f"^{pattern}"
        self.consumer.subscribe(
            [wanted], on_assign=tells("assigned"), on_revoke=tells("revoked"), on_lost=tells("lost")
        )

    def poll(self):
        message = self.consumer.poll(member.POLL_S)
        if message is None:
            return
        error = message.error()
        if error is None:
            self.seen.read(message.partition(), message.offset())
        elif error.fatal():
            raise ck.KafkaException(error)

    def commit(self, offsets):
        at = [ck.TopicPartition(self.topic, partition, offset) for partition, offset in offsets.items()]
        for partition in self.consumer.commit(offsets=at, asynchronous=False):
            if partition.error is not None:
                raise ck.KafkaException(partition.error)

    def close(self):
        self.consumer.close()


def committed(command, partition):
    consumer = ck.Consumer({**BASE, "group.id": command["group"]})
    found = consumer.committed([ck.TopicPartition(command["topic"], partition)], timeout=30)[0]
    consumer.close()
    if found.error is not None:
        raise ck.KafkaException(found.error)
    return found.offset if found.offset >= 0 else None


driver.serve(
    f"librdkafka {ck.libversion()[0]}",
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

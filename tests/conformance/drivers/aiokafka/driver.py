"""aiokafka. Its loop runs in a thread of its own, so that members live while commands are waited for."""

import asyncio
import os
import sys
import threading
import time

# Its folder must not shadow the package.
sys.path[0] = os.path.join(os.path.dirname(__file__), "..")
import driver
import member
import aiokafka
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

BASE = {"bootstrap_servers": sys.argv[1], "client_id": sys.argv[2]}
ACKS = {"0": 0, "1": 1, "all": "all"}

loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()


def sync(op):
    """An op of the loop for driver.serve."""
    return lambda command: asyncio.run_coroutine_threadsafe(op(command), loop).result(driver.PATIENCE_S)


async def reader():
    consumer = aiokafka.AIOKafkaConsumer(
        **BASE,
        enable_auto_commit=False,
        auto_offset_reset="none",
        max_partition_fetch_bytes=driver.FETCH_BYTES_MAX,
        fetch_max_wait_ms=100,
    )
    await consumer.start()
    return consumer


async def metadata(command):
    producer = aiokafka.AIOKafkaProducer(**BASE)
    await producer.start()
    try:
        return {"partitions": len(await producer.partitions_for(command["topic"]))}
    finally:
        await producer.stop()


async def send(command, records):
    """Offsets in the order of the records."""
    compression, limit = command["compression"], command.get("batch_bytes_max")
    producer = aiokafka.AIOKafkaProducer(
        **BASE,
        acks=ACKS[command["acks"]],
        enable_idempotence=command["idempotent"],
        compression_type=None if compression == "none" else compression,
        # Its batches are bounded apart from its requests, and it takes no record that is above either.
        max_batch_size=limit or 1 << 20,
        max_request_size=max(limit or 0, driver.FETCH_BYTES_MAX),
        linger_ms=5,
    )
    await producer.start()
    try:
        sent = [
            await producer.send(command["topic"], value, key, command["partition"], timestamp, headers)
            for key, value, headers, timestamp in records
        ]
        stored = [await future for future in sent]
    finally:
        await producer.stop()
    return [None if command["acks"] == "0" else one.offset for one in stored]


async def produce(command):
    return {"offsets": await send(command, driver.spelled(command))}


async def produce_many(command):
    offsets = await send(command, driver.generated(command))
    return {"first": offsets[0], "last": offsets[-1]}


async def place(command):
    producer = aiokafka.AIOKafkaProducer(**BASE)
    await producer.start()
    try:
        sent = [await producer.send(command["topic"], b"", bytes.fromhex(key)) for key in command["keys"]]
        return {"partitions": [(await future).partition for future in sent]}
    finally:
        await producer.stop()


def partition_of(command):
    return aiokafka.TopicPartition(command["topic"], command["partition"])


async def for_time(consumer, command):
    partition = partition_of(command)
    found = (await consumer.offsets_for_times({partition: command["timestamp"]}))[partition]
    return None if found is None else found.offset


async def read(command):
    consumer, partition = await reader(), partition_of(command)
    read = []
    try:
        consumer.assign([partition])
        offset = command.get("offset")
        consumer.seek(partition, await for_time(consumer, command) if offset is None else offset)
        deadline = driver.deadline()
        while len(read) < command["count"] and time.monotonic() < deadline:
            left = command["count"] - len(read)
            for records in (await consumer.getmany(timeout_ms=1000, max_records=left)).values():
                read += [(one.offset, one.timestamp, one.key, one.value, one.headers) for one in records]
    finally:
        await consumer.stop()
    return read


async def consume(command):
    return driver.answer_records(await read(command))


async def consume_many(command):
    return driver.answer_digest(await read(command))


async def offset_for_time(command):
    consumer = await reader()
    try:
        consumer.assign([partition_of(command)])
        return {"offset": await for_time(consumer, command)}
    finally:
        await consumer.stop()


async def offsets(command):
    consumer, partition = await reader(), partition_of(command)
    try:
        consumer.assign([partition])
        start = (await consumer.beginning_offsets([partition]))[partition]
        return {"start": start, "end": (await consumer.end_offsets([partition]))[partition]}
    finally:
        await consumer.stop()


class Listener(ConsumerRebalanceListener):
    """Tells what is given and taken."""

    def __init__(self, seen):
        self.seen = seen

    def on_partitions_assigned(self, assigned):
        self.seen.tell("assigned", [partition.partition for partition in assigned])

    def on_partitions_revoked(self, revoked):
        self.seen.tell("revoked", [partition.partition for partition in revoked])


class Member:
    """The member of a group, and the task that polls it."""

    async def join(self, command):
        self.topic, self.seen = command["topic"], member.Seen()
        self.consumer = aiokafka.AIOKafkaConsumer(
            **BASE,
            group_id=command["group"],
            group_instance_id=command["instance"],
            partition_assignment_strategy=[RangePartitionAssignor],
            session_timeout_ms=command["session_ms"],
            heartbeat_interval_ms=command["heartbeat_ms"],
            enable_auto_commit=False,
            auto_offset_reset=command["reset"],
            fetch_max_wait_ms=100,
        )
        self.consumer.subscribe([self.topic], listener=Listener(self.seen))
        self.polling = asyncio.ensure_future(self.poll())
        return {}

    async def poll(self):
        try:
            await self.consumer.start()
            while True:
                record = await self.consumer.getone()
                self.seen.read(record.partition, record.offset)
        except Exception as error:
            self.seen.fail(error)

    async def answer(self, _):
        return self.seen.answer()

    async def commit(self, command):
        at = member.offsets_of(command).items()
        await self.consumer.commit(
            {aiokafka.TopicPartition(self.topic, partition): offset for partition, offset in at}
        )
        return {}

    async def leave(self, _):
        self.polling.cancel()
        await self.consumer.stop()
        return {}


async def committed(command):
    consumer = aiokafka.AIOKafkaConsumer(**BASE, group_id=command["group"], enable_auto_commit=False)
    await consumer.start()
    try:
        partitions = [aiokafka.TopicPartition(command["topic"], each) for each in range(command["partitions"])]
        consumer.assign(partitions)
        return {"offsets": [await consumer.committed(partition) for partition in partitions]}
    finally:
        await consumer.stop()


one = Member()
ops = {
    "metadata": metadata,
    "produce": produce,
    "produce_many": produce_many,
    "place": place,
    "consume": consume,
    "consume_many": consume_many,
    "offset_for_time": offset_for_time,
    "offsets": offsets,
    "join": one.join,
    "member": one.answer,
    "commit": one.commit,
    "leave": one.leave,
    "committed": committed,
}
driver.serve(f"aiokafka {aiokafka.__version__}", {name: sync(op) for name, op in ops.items()})

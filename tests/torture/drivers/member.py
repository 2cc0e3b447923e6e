"""A member of a group on librdkafka. Writes the lines of a history to its standard output.

member.py BOOTSTRAP WHO TOPIC NAME=VALUE...: until its standard input ends; the settings have librdkafka's names.
What src/member.rs says of itself is true of this one.
"""

import json
import os
import sys
import threading
import time

import confluent_kafka as ck

bootstrap, who, topic = sys.argv[1], int(sys.argv[2]), sys.argv[3]
POLL_S = 0.05
TOGETHER_MAX = 500
COMMIT_EVERY_S = 0.1
LOOK_EVERY_NS = 100_000_000
STOOD_STILL_MIN_NS = 1_000_000_000
leave = threading.Event()


def until_told():
    sys.stdin.read()
    leave.set()


def watch_clock():
    while True:
        before = time.monotonic_ns()
        time.sleep(LOOK_EVERY_NS / 1e9)
        if time.monotonic_ns() - before > LOOK_EVERY_NS + STOOD_STILL_MIN_NS:
            say("away", why="stood_still", at=before)
            say("back")


def say(event, **fields):
    line = json.dumps({"at": time.monotonic_ns(), "event": event, "who": who, **fields}) + "\n"
    # At once, so that it is there whenever this process is killed.
    os.write(1, line.encode())


def origin(value):
    """Who wrote a value, and its number: src/value.rs; None if nobody writes such bytes."""
    parts = (value or b"").split(b":", 2)
    if len(parts) != 3 or not (parts[0].isdigit() and parts[1].isdigit()):
        return None
    by, number = int(parts[0]), int(parts[1])
    filler = 20_000 if number % 997 == 996 else number * 7919 % 400
    return (by, number) if value == f"{by}:{number}:".encode() + b"x" * filler else None


class Member:
    def __init__(self):
        # By partition: the record to be read next, once it was given one; and what is committed.
        self.next, self.committed = {}, {}
        self.commits, self.pending, self.commit_at = 0, None, 0
        # By partition: what it was given and did not write down.
        self.runs = {}
        settings = dict(pair.split("=", 1) for pair in sys.argv[4:])
        self.consumer = ck.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": f"torture-{who}",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "socket.timeout.ms": 5000,
                "reconnect.backoff.max.ms": 1000,
                "fetch.wait.max.ms": 100,
                "on_commit": self.on_commit,
                "error_cb": lambda _: None,
                "log_level": 0,
                **settings,
            }
        )
        self.consumer.subscribe(
            [topic], on_assign=self.on_assign, on_revoke=self.on_revoke, on_lost=self.on_lost
        )

    def on_assign(self, _, partitions):
        self.write()
        for partition in partitions:
            self.next[partition.partition] = None
            self.committed.pop(partition.partition, None)
        say("assigned", partitions=[partition.partition for partition in partitions])

    def on_revoke(self, _, partitions):
        self.write()
        say("revoked", partitions=[partition.partition for partition in partitions])
        offsets = []
        for partition in partitions:
            at = self.next.pop(partition.partition, None)
            if at is not None and at != self.committed.pop(partition.partition, None):
                offsets.append((partition.partition, at))
        # One that has no answer yet is sent again, maybe after this one, which would take it back.
        if offsets and self.pending is None:
            self.commits += 1
            number = self.commits
            say("commit", number=number, offsets=offsets)
            try:
                self.told(number, None, self.consumer.commit(offsets=self.places(offsets), asynchronous=False))
            except ck.KafkaException as error:
                self.told(number, error, [])

    def on_lost(self, _, partitions):
        self.write()
        for partition in partitions:
            self.next.pop(partition.partition, None)
            self.committed.pop(partition.partition, None)
        say("lost", partitions=[partition.partition for partition in partitions])

    def places(self, offsets):
        return [ck.TopicPartition(topic, partition, at) for partition, at in offsets]

    def told(self, number, error, partitions):
        wrong = [error] + [partition.error for partition in partitions]
        wrong = [str(error) for error in wrong if error is not None]
        if wrong:
            say("uncommitted", number=number, why=wrong[0])
        else:
            say("committed", number=number)
        return not wrong

    def on_commit(self, error, partitions):
        # Those of on_revoke are not waited for here.
        if self.pending is None:
            return
        (number, offsets), self.pending = self.pending, None
        if self.told(number, error, partitions):
            self.committed.update((p, at) for p, at in offsets if p in self.next)

    def commit(self):
        if self.pending is not None or time.monotonic() < self.commit_at:
            return
        self.commit_at = time.monotonic() + COMMIT_EVERY_S
        read = [(partition, at) for partition, at in self.next.items() if at is not None]
        offsets = [(partition, at) for partition, at in read if self.committed.get(partition) != at]
        if not offsets:
            return
        self.commits += 1
        self.pending = (self.commits, offsets)
        say("commit", number=self.commits, offsets=offsets)
        try:
            self.consumer.commit(offsets=self.places(offsets), asynchronous=True)
        except ck.KafkaException as error:
            self.pending = None
            say("uncommitted", number=self.commits, why=str(error))

    def read(self):
        wait = POLL_S
        for _ in range(TOGETHER_MAX):
            message = self.consumer.poll(wait)
            if message is None:
                break
            error = message.error()
            if error is not None:
                if error.fatal():
                    raise ck.KafkaException(error)
                break
            self.take(message)
            wait = 0
        self.write()

    def take(self, message):
        partition, offset = message.partition(), message.offset()
        of = origin(message.value())
        if of is None:
            self.write()
            say("corrupt", partition=partition, offset=offset, why="nobody writes such a value")
            return
        by, number = of
        if self.next.get(partition) is None:
            say("assign", partition=partition, offset=offset)
        self.next[partition] = offset + 1
        of = self.runs.setdefault(partition, [])
        if of and of[-1][1] == by and of[-1][0] + of[-1][3] == offset and of[-1][2] + of[-1][3] == number:
            of[-1][3] += 1
        else:
            of.append([offset, by, number, 1])

    def write(self):
        for partition, runs in self.runs.items():
            say("poll", partition=partition, runs=runs)
        self.runs.clear()

    def live(self):
        while not leave.is_set():
            self.read()
            self.commit()
        say("leaving")
        self.consumer.close()


threading.Thread(target=until_told, daemon=True).start()
threading.Thread(target=watch_clock, daemon=True).start()
Member().live()

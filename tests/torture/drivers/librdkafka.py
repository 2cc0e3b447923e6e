"""An idempotent acks=all producer on librdkafka. Writes the lines of a history to its standard output.

librdkafka.py BOOTSTRAP TOPIC NUMBER PARTITIONS RATE: until its standard input ends;
a word before that end says that nothing is to be waited for.
"""

import json
import sys
import threading
import time

import confluent_kafka as ck

bootstrap, topic, by, partitions, rate = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
DELIVERY_MS = 30_000
TOGETHER = 4
stop = threading.Event()
fatal = threading.Event()
now = threading.Event()


def until_told():
    if sys.stdin.read():
        now.set()
    stop.set()


def say(event, **fields):
    sys.stdout.write(json.dumps({"at": time.monotonic_ns(), "event": event, "by": by, **fields}) + "\n")


def value(number):
    filler = 20_000 if number % 997 == 996 else number * 7919 % 400
    return f"{by}:{number}:".encode() + b"x" * filler


def delivered(number):
    def report(error, message):
        sent = {"partition": message.partition(), "first": number, "count": 1}
        if error is None:
            say("ok", **sent, offset=message.offset())
        else:
            # It does not say whether the record was on its way.
            say("info", **sent, why=str(error))

    return report


def failed(error):
    # Only one that is fatal ends a producer; the others are about connections, and it goes on.
    if error.fatal():
        fatal.set()


def hear(wait):
    """Reports come while it waits; a producer that failed for good raises an error as well."""
    try:
        wait()
    except ck.KafkaException:
        fatal.set()


producer = ck.Producer(
    {
        "bootstrap.servers": bootstrap,
        "client.id": f"torture-{by}",
        "acks": "all",
        "enable.idempotence": True,
        "delivery.timeout.ms": DELIVERY_MS,
        "request.timeout.ms": 5000,
        "linger.ms": 2,
        "error_cb": failed,
        "log_level": 0,
    }
)
threading.Thread(target=until_told, daemon=True).start()
number, partition = 0, by % partitions
while not stop.is_set() and not fatal.is_set():
    say("invoke", partition=partition, first=number, count=TOGETHER)
    for each in range(number, number + TOGETHER):
        try:
            producer.produce(topic, value(each), None, partition, on_delivery=delivered(each))
        except (BufferError, ck.KafkaException) as error:
            # It was not taken.
            say("fail", partition=partition, first=each, count=1, why=str(error))
    hear(lambda: producer.poll(0))
    sys.stdout.flush()
    number, partition = number + TOGETHER, (partition + 1) % partitions
    stop.wait(TOGETHER / rate)
hear(lambda: producer.flush(0 if now.is_set() else DELIVERY_MS / 1000 + 10))
sys.stdout.flush()

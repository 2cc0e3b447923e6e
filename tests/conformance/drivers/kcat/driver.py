"""kcat: each command is one or more runs of the program, told by its options."""

import itertools
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import driver

KCAT = ["kcat", "-b", sys.argv[1], "-X", f"client.id={sys.argv[2]}"]
# Neither occurs in what the suite has kcat write.
RECORD_END, KEY_END = b"\x1e", b"\x1f"


def run(arguments, stdin=b""):
    """Stdout and stderr of one run."""
    done = subprocess.run(
        KCAT + arguments, input=stdin, capture_output=True, timeout=driver.PATIENCE_S
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode(errors="replace").strip())
    return done.stdout, done.stderr


def metadata(command):
    listing = run(["-L", "-t", command["topic"]])[0].decode()
    if re.search(r"topic .* with \d+ partitions: ", listing):
        raise RuntimeError(listing)
    return {"partitions": len(re.findall(r"^ +partition \d+,", listing, re.M))}


def send(command, records):
    """Offsets in the order of the records."""
    offsets = []
    unheard = command["acks"] == "0"
    end = ask_offset(command, -1) if unheard else None
    options = [
        *("-P", "-vvv", "-t", command["topic"], "-p", str(command["partition"])),
        *("-z", command["compression"], "-X", f"acks={command['acks']}"),
        *("-X", f"enable.idempotence={str(command['idempotent']).lower()}"),
        *("-X", "linger.ms=5"),
        *("-D", RECORD_END.decode(), "-K", KEY_END.decode()),
    ]
    if limit := command.get("batch_bytes_max"):
        options += ["-X", f"message.max.bytes={limit}"]
    # A run has one set of headers, and its values are null or they are not.
    for (headers, null), run_records in itertools.groupby(
        records, lambda record: (tuple(record[2]), record[1] is None)
    ):
        lines, count = [], 0
        for key, value, _, timestamp in run_records:
            if timestamp is not None:
                raise ValueError("kcat stamps records itself")
            lines.append((b"" if key is None else key + KEY_END) + (value or b"") + RECORD_END)
            count += 1
        more = ["-Z"] if null else []
        for name, value in headers:
            more += ["-H", name if value is None else name + "=" + value.decode()]
        log = run(options + more, b"".join(lines))[1]
        found = re.findall(rb"Message delivered to partition \d+ \(offset (-?\d+)\)", log)
        if unheard:
            end += count
            wait_for_end(command, end)
        elif len(found) != count:
            raise RuntimeError(f"{len(found)} of {count} records were delivered")
        offsets += [None] * count if unheard else map(int, found)
    return offsets


def wait_for_end(command, end):
    """Until what one run wrote unheard has arrived, so that the next one's records follow it."""
    deadline = driver.deadline()
    while ask_offset(command, -1) < end:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the partition does not reach {end}")


def produce(command):
    return {"offsets": send(command, driver.spelled(command))}


def produce_many(command):
    offsets = send(command, driver.generated(command))
    return {"first": offsets[0], "last": offsets[-1]}


def read(command):
    offset = command.get("offset")
    start = f"s@{command['timestamp']}" if offset is None else str(offset)
    form = r"%o %T %K %S\n%k%s%h\n"
    arguments = [
        *("-C", "-t", command["topic"], "-p", str(command["partition"]), "-o", start),
        *("-c", str(command["count"]), "-q", "-X", f"fetch.message.max.bytes={driver.FETCH_BYTES_MAX}"),
        *("-X", "check.crcs=true", "-X", "fetch.wait.max.ms=100", "-f", form),
    ]
    text, at = run(arguments)[0], 0
    while at < len(text):
        end = text.index(b"\n", at)
        offset, timestamp, key_bytes, value_bytes = map(int, text[at:end].split())
        at = end + 1
        key, at = cut(text, at, key_bytes)
        value, at = cut(text, at, value_bytes)
        end = text.index(b"\n", at)
        headers = [split_header(pair) for pair in text[at:end].decode().split(",") if pair]
        at = end + 1
        yield offset, timestamp, key, value, headers


def cut(text, at, size):
    return (None, at) if size < 0 else (text[at : at + size], at + size)


def split_header(pair):
    name, _, value = pair.partition("=")
    # kcat spells a null value so.
    return name, None if value == "NULL" else value.encode()


def offset_for_time(command):
    offset = ask_offset(command, command["timestamp"])
    return {"offset": offset if offset >= 0 else None}


def ask_offset(command, timestamp):
    where = f"{command['topic']}:{command['partition']}:{timestamp}"
    return int(re.search(rb"offset (-?\d+)", run(["-Q", "-t", where])[0]).group(1))


def offsets(command):
    return {"start": ask_offset(command, -2), "end": ask_offset(command, -1)}


version = subprocess.run(["kcat", "-V"], capture_output=True, check=True).stdout.decode()
driver.serve(
    " ".join(re.search(r"Version (\S+) .*(librdkafka \S+)", version).groups()),
    {
        "metadata": metadata,
        "produce": produce,
        "produce_many": produce_many,
        "consume": lambda command: driver.answer_records(read(command)),
        "consume_many": lambda command: driver.answer_digest(read(command)),
        "offset_for_time": offset_for_time,
        "offsets": offsets,
    },
)

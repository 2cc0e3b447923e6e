"""What the Python drivers share: the line protocol of PROTOCOL.md, payloads, digests."""

import hashlib
import json
import struct
import sys
import time

# Above every record of the suite, and below what the suite lets a topic take.
FETCH_BYTES_MAX = 4 << 20
# No command of the suite needs as long; a client that waits longer has lost its answer.
PATIENCE_S = 90


def payload(seed, index, size):
    blocks = (size + 63) // 64
    text = "".join(
        hashlib.sha256(f"{seed}/{index}/{block}".encode()).hexdigest()[:32] + "." * 32
        for block in range(blocks)
    )
    return text[:size].encode()


def generated(command):
    """The records of produce_many as (key, value, headers, timestamp)."""
    sizes, base = command["sizes"], command.get("timestamp")
    for index in range(command["count"]):
        value = payload(command["seed"], index, sizes[index % len(sizes)])
        yield str(index).encode(), value, [], None if base is None else base + index


def spelled(command):
    """The records of produce as (key, value, headers, timestamp)."""
    for record in command["records"]:
        headers = [(name, unhex(value)) for name, value in record["headers"]]
        yield unhex(record["key"]), unhex(record["value"]), headers, record["timestamp"]


def unhex(text):
    return None if text is None else bytes.fromhex(text)


def tohex(data):
    return None if data is None else bytes(data).hex()


def answer_records(records):
    """The answer of consume for (offset, timestamp, key, value, headers)."""
    return {
        "records": [
            {
                "offset": offset,
                "timestamp": timestamp,
                "key": tohex(key),
                "value": tohex(value),
                "headers": [[name, tohex(data)] for name, data in headers],
            }
            for offset, timestamp, key, value, headers in records
        ]
    }


def answer_digest(records):
    """The answer of consume_many for the same."""
    digest, first, last, count = hashlib.sha256(), None, None, 0
    for offset, _, key, value, _ in records:
        digest.update(struct.pack(">q", offset))
        for data in (key, value):
            digest.update(struct.pack(">i", -1 if data is None else len(data)))
            digest.update(data or b"")
        first = offset if first is None else first
        last, count = offset, count + 1
    return {"first": first, "last": last, "count": count, "digest": digest.hexdigest()}


def deadline():
    return time.monotonic() + PATIENCE_S


def serve(name, ops):
    """Answers commands with the functions of ops until stdin ends."""
    # Client libraries that print must not write into the protocol.
    out, sys.stdout = sys.stdout, sys.stderr

    def say(answer):
        out.write(json.dumps(answer) + "\n")
        out.flush()

    say({"ready": name})
    for line in sys.stdin:
        command = json.loads(line)
        try:
            say(ops[command["op"]](command))
        except Exception as error:  # the suite decides what an error means
            say({"error": f"{type(error).__name__}: {error}"})

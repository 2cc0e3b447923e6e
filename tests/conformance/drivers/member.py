"""What the Python drivers share of a member of a group: what it saw, and the thread that polls it."""

import concurrent.futures
import queue
import threading

# A poll ends as soon, so that what is asked of a member need not wait longer.
POLL_S = 0.1


class Seen:
    """What a member was given and what it read; `member` answers it."""

    def __init__(self):
        self.lock = threading.Lock()
        self.events, self.records, self.error = [], [], None

    def tell(self, what, partitions):
        with self.lock:
            self.events.append({what: sorted(partitions)})

    def read(self, partition, offset):
        with self.lock:
            self.records.append({"partition": partition, "offset": offset})

    def fail(self, error):
        with self.lock:
            self.error = error

    def answer(self):
        with self.lock:
            if self.error is not None:
                raise self.error
            return {"events": list(self.events), "records": list(self.records)}


def offsets_of(command):
    """The offsets of commit, by partition."""
    return {partition: offset for partition, offset in enumerate(command["offsets"]) if offset is not None}


class Polled:
    """A client that wants to be called by one thread: it polls, and does what is asked in between."""

    def __init__(self, start):
        self.seen = Seen()
        self.asked = queue.SimpleQueue()
        self.is_over = False
        threading.Thread(target=self.run, args=[start], daemon=True).start()

    def run(self, start):
        try:
            client = start(self.seen)
            while not self.is_over:
                client.poll()
                while not self.asked.empty():
                    done, what = self.asked.get()
                    try:
                        done.set_result(what(client))
                    except Exception as error:  # the suite decides what an error means
                        done.set_exception(error)
        except Exception as error:
            self.seen.fail(error)
            while not self.asked.empty():
                self.asked.get()[0].set_exception(error)

    def ask(self, what, patience_s):
        self.seen.answer()  # nobody would answer for a member that failed
        done = concurrent.futures.Future()
        self.asked.put((done, what))
        return done.result(patience_s)

    def leave(self, patience_s):
        def close(client):
            self.is_over = True
            client.close()

        self.ask(close, patience_s)


def ops(start, committed, patience_s):
    """The operations of a member: start(command, seen) makes a client with poll, commit and close."""
    current = None

    def join(command):
        nonlocal current
        current = Polled(lambda seen: start(command, seen))
        return {}

    def member(_):
        return current.seen.answer()

    def commit(command):
        current.ask(lambda client: client.commit(offsets_of(command)), patience_s)
        return {}

    def leave(_):
        current.leave(patience_s)
        return {}

    def committed_(command):
        found = [committed(command, partition) for partition in range(command["partitions"])]
        return {"offsets": found}

    return {"join": join, "member": member, "commit": commit, "leave": leave, "committed": committed_}

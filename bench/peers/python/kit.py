"""What the Python adapters share: the protocol spoken with the driver, the payload, the record of what ran."""

import json
import os
import signal
import sys
import threading
import time

FIRST = 1_000_000_000
BATCH = 1_000
LINE = 512  # How many jobs a line tells.
FLUSH_S = 0.2  # How long a line that isn't full waits.


def order(n):
    """120 bytes of JSON, once it is written without spaces."""
    return {"order_id": FIRST + n, "customer": "customer-0000042", "note": "x" * 57}


def number(order):
    return order["order_id"] - FIRST


def tell(message):
    # One write a line, so that lines of several processes don't mix.
    os.write(1, json.dumps(message, separators=(",", ":")).encode() + b"\n")


def now_us():
    return time.time_ns() // 1_000


class Task:
    """The command line: enqueue URL N one|many now|FROM_MS:STEP_US, or work URL N."""

    def __init__(self):
        self.name, self.url, count, *rest = sys.argv[1:]
        self.jobs = int(count)
        self.how = rest[0] if rest else None
        self.due = rest[1] if rest else "now"
        threading.Thread(target=_end_with_driver, daemon=True).start()

    def due_s(self, n):
        """When a job is due, in seconds since 1970; None: at once."""
        if self.due == "now":
            return None
        from_ms, step_us = map(int, self.due.split(":"))
        return from_ms / 1_000 + n * step_us / 1_000_000


def _end_with_driver():
    # The driver holds the other end of stdin, and never writes.
    while os.read(0, 4096):
        pass
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # With the processes started here.
    os._exit(0)


class Record:
    """What ran, told in lines of many jobs, so that telling costs next to nothing."""

    def __init__(self, jobs):
        self._jobs, self._ran, self._line = jobs, 0, []
        self._lock = threading.Lock()
        threading.Thread(target=self._tick, daemon=True).start()

    def ran(self, n):
        start_us = now_us()
        with self._lock:
            self._line += (n, start_us)
            self._ran += 1
            if len(self._line) >= 2 * LINE or self._ran >= self._jobs:
                self._flush()

    def _flush(self):
        if self._line:
            tell({"ran": self._line})
            self._line = []

    def _tick(self):
        while True:
            time.sleep(FLUSH_S)
            with self._lock:
                self._flush()

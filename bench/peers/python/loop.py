"""The plain loop that many write themselves: ZADD with the due time; a Lua script pops one due job; none due, sleep."""

import json
import time

import redis

from kit import BATCH, Record, Task, number, order, tell

KEY = "bench"
SLEEP_S = 0.1

POP = """
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 1)
if due[1] then redis.call('ZREM', KEYS[1], due[1]) end
return due[1]
"""


def main():
    task = Task()
    client = redis.Redis.from_url(task.url)
    client.ping()
    if task.name == "enqueue":
        enqueue(task, client)
    else:
        work(task, client)


def entry(task, n):
    due_s = task.due_s(n)
    return {json.dumps(order(n), separators=(",", ":")): time.time() if due_s is None else due_s}


def enqueue(task, client):
    tell({"begin": True})
    if task.how == "one":
        for n in range(task.jobs):
            client.zadd(KEY, entry(task, n))
    else:
        for first in range(0, task.jobs, BATCH):
            batch = {}
            for n in range(first, min(task.jobs, first + BATCH)):
                batch |= entry(task, n)
            client.zadd(KEY, batch)
    tell({"end": task.jobs})


def work(task, client):
    record = Record(task.jobs)
    pop = client.register_script(POP)
    tell({"ready": True})
    while True:
        job = pop(keys=[KEY], args=[time.time()])
        if job is None:
            time.sleep(SLEEP_S)
        else:
            record.ran(number(json.loads(job)))


main()

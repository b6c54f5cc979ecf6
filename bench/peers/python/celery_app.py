"""Celery on its Redis transport, as its guide on optimizing advises for many short tasks: prefork, one process a core, a large
prefetch, no results, no gossip."""

import os
from datetime import datetime, timezone

from celery import Celery
from celery.signals import worker_ready

from kit import Task, now_us, number, order, tell

PREFETCH = 100  # For each process; the guide: many short tasks, a large multiplier.

task = Task()
app = Celery("bench", broker=task.url)
app.conf.update(
    task_ignore_result=True,
    task_default_delivery_mode="transient",
    task_serializer="json",
    worker_prefetch_multiplier=PREFETCH,
    worker_disable_rate_limits=True,
    broker_connection_retry_on_startup=True,
)


@app.task(name="order")
def run(order):
    # The processes share the pipe: each job is a line.
    tell({"ran": [number(order), now_us()]})


def enqueue():
    # It has no bulk call: a producer that is kept, and one send after another.
    with app.producer_or_acquire() as producer:
        producer.connection.ensure_connection()
        tell({"begin": True})
        for n in range(task.jobs):
            due_s = task.due_s(n)
            eta = None if due_s is None else datetime.fromtimestamp(due_s, timezone.utc)
            run.apply_async((order(n),), eta=eta, producer=producer)
        tell({"end": task.jobs})


@worker_ready.connect
def ready(**_):
    tell({"ready": True})


def work():
    app.worker_main(
        ["worker", "--pool=prefork", f"--concurrency={os.cpu_count()}", "--loglevel=ERROR"]
        + ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    )


enqueue() if task.name == "enqueue" else work()

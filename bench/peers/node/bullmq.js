// BullMQ: one worker with concurrency 100, finished jobs removed; bulk sends by addBulk.
//
// Usage: enqueue URL N one|many now|FROM_MS:STEP_US, or work URL N. Answers with lines of JSON.

import { Queue, Worker } from 'bullmq';

const QUEUE = 'bench';
const CONCURRENCY = 100;
const BATCH = 1000;
const FIRST = 1_000_000_000;
const LINE = 512; // How many jobs a line tells.
const FLUSH_MS = 200; // How long a line that isn't full waits.

const [task, url, count, how, due] = process.argv.slice(2);
const jobs = Number(count);
const { hostname: host, port } = new URL(url);
// The documentation wants maxRetriesPerRequest null for workers.
const connection = { host, port: Number(port), maxRetriesPerRequest: null };

const tell = (message) => process.stdout.write(JSON.stringify(message) + '\n');

// The driver holds the other end, and never writes: the process doesn't outlive it.
process.stdin.on('end', () => process.exit(0)).resume();

/** 120 bytes of JSON. */
const order = (n) => ({ order_id: FIRST + n, customer: 'customer-0000042', note: 'x'.repeat(57) });

/** A job's options: its delay, if it is due later. */
function options(n) {
  if (due === 'now') return {};
  const [fromMs, stepUs] = due.split(':').map(Number);
  return { delay: Math.max(0, Math.round(fromMs + (n * stepUs) / 1000 - Date.now())) };
}

async function enqueue() {
  const queue = new Queue(QUEUE, { connection, defaultJobOptions: { removeOnComplete: true, removeOnFail: true } });
  await queue.waitUntilReady();
  tell({ begin: true });
  if (how === 'one') {
    for (let n = 0; n < jobs; n++) await queue.add('order', order(n), options(n));
  } else {
    for (let first = 0; first < jobs; first += BATCH) {
      const batch = [];
      for (let n = first; n < Math.min(jobs, first + BATCH); n++) {
        batch.push({ name: 'order', data: order(n), opts: options(n) });
      }
      await queue.addBulk(batch);
    }
  }
  tell({ end: jobs });
  await queue.close();
  process.exit(0);
}

async function work() {
  let line = [];
  let ran = 0;
  const flush = () => {
    if (line.length > 0) tell({ ran: line });
    line = [];
  };
  setInterval(flush, FLUSH_MS);
  const nowUs = () => Math.round((performance.timeOrigin + performance.now()) * 1000);
  const handler = async (job) => {
    line.push(job.data.order_id - FIRST, nowUs());
    ran += 1;
    if (line.length >= 2 * LINE || ran >= jobs) flush();
  };
  const worker = new Worker(QUEUE, handler, { connection, concurrency: CONCURRENCY, autorun: false });
  worker.on('error', (error) => console.error(error));
  await worker.waitUntilReady();
  tell({ ready: true });
  await worker.run();
}

await (task === 'enqueue' ? enqueue() : work());

// A function for perdura: POST JSON, answer JSON, and once for each Idempotency-Key.
//
//     node worker.ts [PORT] [FILE]      with Node 22.18 or newer; before that: npx tsx worker.ts
import { createServer, type IncomingMessage } from "node:http";
import { existsSync, fsyncSync, openSync, readFileSync, truncateSync, writeSync } from "node:fs";

type Order = { customer: string; cents: number };
type Charge = { key: string; request: string; customer: string; cents: number; answer: string };
type Answer = { status: number; body: string };

const [port = "8090", path = "charges.jsonl"] = process.argv.slice(2);
const bodyMax = 1 << 20;

// A line is a charge and the key under which it was made: one write, so both are there or neither.
const written = existsSync(path) ? readFileSync(path, "utf8") : "";
const complete = written.slice(0, written.lastIndexOf("\n") + 1);
if (complete !== written) truncateSync(path, Buffer.byteLength(complete));
const lines = complete.split("\n").filter((line) => line !== "");
const charges = new Map(lines.map((line) => JSON.parse(line) as Charge).map((charge) => [charge.key, charge]));
const file = openSync(path, "a");

// The answer to this key: the first one, whenever it is asked for again. Nothing waits in here, so calls take turns.
function once(key: string, request: string): Answer {
  const known = charges.get(key);
  if (known?.request === request) return { status: 200, body: known.answer };
  if (known) return error(422, "KeyReused", "the key had another request");
  let order: Order;
  try {
    order = JSON.parse(request) as Order;
  } catch (broken) {
    return error(400, "NotJson", String(broken));
  }
  if (typeof order?.customer !== "string" || !(order.cents > 0)) return error(400, "NoAmount", "an order has an amount");
  const answer = JSON.stringify({ receipt: charges.size + 1 });
  const charge: Charge = { key, request, customer: order.customer, cents: order.cents, answer };
  writeSync(file, JSON.stringify(charge) + "\n");
  fsyncSync(file); // what is answered is on disk; if it cannot be, this ends the worker, and the next one looks again
  charges.set(key, charge);
  return { status: 200, body: answer };
}

function error(status: number, errorType: string, errorMessage: string): Answer {
  return { status, body: JSON.stringify({ errorType, errorMessage }) };
}

async function answer(request: IncomingMessage): Promise<Answer> {
  const key = request.headers["idempotency-key"];
  let body = "";
  try {
    for await (const part of request.setEncoding("utf8")) if (body.length <= bodyMax) body += part;
  } catch {
    return error(400, "HungUp", "the request is not complete"); // and nobody is there to read this
  }
  if (typeof key === "string" && key !== "" && body.length <= bodyMax) return once(key, body);
  return error(400, "BadRequest", "a request has an Idempotency-Key and at most 1 MiB");
}

const server = createServer(async (request, response) => {
  const { status, body } = await answer(request);
  response.writeHead(status, { "Content-Type": "application/json" }).end(body);
});
server.listen(Number(port), "127.0.0.1", () => {
  const address = server.address();
  if (address && typeof address === "object") console.log(`listens on http://127.0.0.1:${address.port}`);
});

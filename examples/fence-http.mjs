// An HTTP API that refuses requests of yesterday's holder.
//
//   node examples/fence-http.mjs
import { connect } from "holdfast";
import { fileMarks } from "holdfast/fence/file";
import { expressGuard, fencedFetch } from "holdfast/fence/http";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

// The server. With Express: app.put("/invoices/:id", guard, handler). The mark survives its restarts.
const folder = await mkdtemp(join(tmpdir(), "holdfast-example-"));
const guard = expressGuard({ lock: (request) => `invoice:${request.url.split("/")[2]}`, marks: fileMarks(folder) });
let status = "new";
const server = createServer((request, response) =>
  guard(request, response, () => {
    status = request.headers["x-status"];
    response.end();
  }),
).listen(0, "127.0.0.1");
await once(server, "listening");
const url = `http://127.0.0.1:${server.address().port}/invoices/42`;

// The client.
const locks = await connect();
const write = (lease, value) => fencedFetch(lease)(url, { method: "PUT", headers: { "x-status": value } });

// This holder does not renew and is about to be paused: its lease runs out.
const paused = await locks.acquire("invoice:42", { ttl: "200ms", renew: false });

// So the next one gets the lock and writes.
await locks.run("invoice:42", (lease) => write(lease, "paid"));

// fencedFetch sends nothing for a lease that it knows has ended …
await write(paused, "open").catch((error) => console.log(`not sent: ${error.code}`));

// … but a request may have left in time and arrive late. The server refuses it.
const { name, fence } = paused;
await write({ name, fence }, "open").catch((error) => console.log(`refused: ${error.code}`));

console.log(`the invoice is ${status}`);
server.close();
await rm(folder, { recursive: true });
await locks.close();

// The console in an app: the app's own login says who may look, and who may end leases by force.
// It ends by itself after it has looked once; a real app goes on.
import { once } from "node:events";
import { createServer } from "node:http";
import { connect } from "holdfast";
import { createConsole } from "holdfast/console";

const locks = await connect();

/** Stands for your session: here a header says who it is. */
const userOf = (request) =>
  ({ ada: { name: "ada", isOperator: true }, ben: { name: "ben" } })[request.headers["x-user"]];

const page = createConsole(locks, {
  path: "/admin/locks",
  allowRelease: true,
  authorize: (request, { kind }) => {
    const user = userOf(request);
    if (kind === "release") return user?.isOperator ? user.name : null;
    return user?.name ?? null;
  },
  audit: ({ who, action, outcome, lock, reason }) =>
    console.log(`audit: ${who || "a user"} ${action} ${lock} ${outcome}: ${reason}`),
});

const server = createServer((request, response) => {
  if (request.url.startsWith("/admin/locks")) page(request, response);
  else response.end("the app\n");
}).listen(0, "127.0.0.1");
await once(server, "listening");
const url = `http://127.0.0.1:${server.address().port}/admin/locks/`;

const lease = await locks.acquire("report:nightly");
console.log(
  `a stranger: ${(await fetch(url)).status}, ben: ${(await fetch(url, { headers: { "x-user": "ben" } })).status}`,
);

const release = async (user) => {
  const headers = { "x-user": user, "content-type": "application/json" };
  const { csrf } = await (await fetch(`${url}hello`, { headers })).json();
  const body = JSON.stringify({ name: "report:nightly", fence: String(lease.fence), reason: "it hangs" });
  const answer = await fetch(`${url}release`, {
    method: "POST",
    headers: { ...headers, "x-holdfast-csrf": csrf },
    body,
  });
  return answer.status;
};
console.log(`ben may not end it: ${await release("ben")}`);
console.log(`ada may: ${await release("ada")}`);
console.log(`the holder hears why: ${lease.signal.reason.reason}`);

page.close();
server.close();
server.closeAllConnections();
await locks.close();

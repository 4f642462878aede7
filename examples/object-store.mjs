// A stand-in for S3 with just enough of it for fence-object-store.mjs: ETag (of the body, as there), If-Match, If-None-Match.
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { buffer } from "node:stream/consumers";

export async function startObjectStore() {
  const objects = new Map();
  const serve = async (request, response) => {
    const body = await buffer(request);
    const found = objects.get(request.url);
    if (request.method === "PUT") {
      const { "if-match": match, "if-none-match": noneMatch } = request.headers;
      const refused = match === undefined ? noneMatch === "*" && found !== undefined : match !== found?.etag;
      if (refused) return response.writeHead(412).end();
      const etag = `"${createHash("md5").update(body).digest("hex")}"`;
      objects.set(request.url, { body, etag });
      return response.writeHead(200, { etag }).end();
    }
    if (found === undefined) return response.writeHead(404).end();
    response.writeHead(200, { etag: found.etag }).end(found.body);
  };
  const server = createServer((request, response) => void serve(request, response)).listen(0, "127.0.0.1");
  await once(server, "listening");
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${server.address().port}`, close };
}

/** TLS by URL: files that are not what they should be are named when the URL is read, and a failed handshake is said on every topology. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer, type Server } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openBackend } from "../../../src/backends/redis/open.ts";
import { parseUrl } from "../../../src/backends/redis/url.ts";
import type { LockBackendError } from "../../../src/contract/errors.ts";
import { eventually } from "../../../src/testing/eventually.ts";

const place = mkdtempSync(join(tmpdir(), "holdfast-tls-"));
const at = (name: string): string => join(place, name);
let server: Server;

beforeAll(async () => {
  for (const name of ["ours", "other"]) {
    const files = ["-keyout", at(`${name}-key.pem`), "-out", at(`${name}.pem`)];
    const named = ["-subj", `/CN=${name}`, "-addext", "subjectAltName=IP:127.0.0.1"];
    const ask = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
    execFileSync("openssl", [...ask, ...files, ...named], { stdio: "ignore" });
  }
  const lock = ["ec", "-in", at("ours-key.pem"), "-aes128", "-passout", "pass:x", "-out", at("locked-key.pem")];
  execFileSync("openssl", lock, { stdio: "ignore" });
  writeFileSync(at("empty.pem"), "");
  writeFileSync(at("garbage.pem"), "this is no certificate");
  writeFileSync(at("damaged.pem"), readFileSync(at("ours.pem"), "utf8").replace(/\n.{20}/u, "\nAAAA"));
  writeFileSync(
    at("bundle.pem"),
    `# two\n${readFileSync(at("ours.pem"), "utf8")}\n${readFileSync(at("other.pem"), "utf8")}`,
  );
  server = createServer({ cert: readFileSync(at("ours.pem")), key: readFileSync(at("ours-key.pem")) });
  // A client that does not trust us says so and leaves.
  server.on("tlsClientError", () => {});
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterAll(() => {
  server.close();
  rmSync(place, { recursive: true, force: true });
});

describe("S164: the files that a URL names are looked at when it is read", () => {
  const read = (query: string): unknown => parseUrl(`rediss://host?${query.replaceAll("@", `${place}/`)}`);

  test.each([
    "ca=@ours.pem",
    "ca=@bundle.pem",
    "cert=@ours.pem&key=@ours-key.pem",
    "ca=@other.pem&cert=@ours.pem&key=@ours-key.pem",
  ])("%s is taken", (query) => expect(() => read(query)).not.toThrow());

  test.each([
    ["ca=@empty.pem", /`ca`.*certificates.*empty\.pem" is empty/u],
    ["ca=@garbage.pem", /`ca`.*certificates.*garbage\.pem" has none/u],
    ["ca=@ours-key.pem", /`ca`.*certificates.*ours-key\.pem" has none/u],
    ["ca=@damaged.pem", /`ca`.*damaged\.pem" is damaged: certificate 1 of 1/u],
    ["ca=@missing.pem", /`ca`.*missing\.pem" cannot be read \(ENOENT\)/u],
    ["cert=@garbage.pem&key=@ours-key.pem", /`cert`.*garbage\.pem" has none/u],
    ["cert=@ours.pem&key=@garbage.pem", /`key`.*private key.*garbage\.pem" has none/u],
    ["cert=@ours.pem&key=@locked-key.pem", /`key`.*locked-key\.pem" needs a passphrase/u],
    ["cert=@ours.pem&key=@other-key.pem", /`key`.*other-key\.pem" belongs to another one than ".*ours\.pem"/u],
  ])("%s is refused, and named", (query, said) => {
    expect(() => read(query)).toThrow(TypeError);
    expect(() => read(query)).toThrow(said);
  });
});

/** What it says for good: a handshake that a busy machine needs seconds for may be given up, and that passes. */
function refusal(url: string): Promise<LockBackendError> {
  return eventually("it is refused for good", async () => {
    const error = await openBackend(url).then(
      () => expect.fail("it was opened"),
      (reason: LockBackendError) => reason,
    );
    return error.fatal ? error : undefined;
  });
}

describe.each([
  ["rediss", ""],
  ["rediss+sentinel", "/service"],
  ["rediss+cluster", ""],
])("S147: %s:// says what is wrong with TLS", (scheme, path) => {
  test.each(["ioredis", "redis"])("where the certificate is not trusted, with %s", async (client) => {
    const { port } = server.address() as { port: number };
    const url = `${scheme}://:secret@127.0.0.1:${port}${path}?client=${client}`;
    for (const where of [url, `${url}&ca=${at("other.pem")}`]) {
      expect(await refusal(where)).toMatchObject({
        name: "LockBackendError",
        message: expect.stringMatching(/TLS: .*not from an authority.*\?ca=/u) as string,
      });
    }
  });
});

/** What is known of a request's body: whether there is one, and the text that stands for one that a parser has read. */
import type { IncomingMessage } from "node:http";
import { ArgumentError, got } from "../../contract/argument-error.ts";

/** HTTP/2 does not need a length for a body: there, only a request that ended with its headers has none. */
export function hasBody(request: IncomingMessage): boolean {
  const { "content-length": length, "transfer-encoding": encoding } = request.headers;
  if (encoding !== undefined || length !== undefined) return encoding !== undefined || Number(length) !== 0;
  const { stream } = request as { readonly stream?: { readonly endAfterHeaders?: boolean } };
  return request.httpVersionMajor >= 2 && stream?.endAfterHeaders !== true;
}

/** Without its parameters: the boundary of a multipart body is another one each time. */
export function mediaType(contentType: string | undefined): string {
  return (contentType ?? "").split(";", 1)[0]!.trim().toLowerCase();
}

/**
 * A parsed body as JSON, so that two that are not the same have not the same text. Throws where JSON would not say all of it: two requests would
 * be taken for one.
 */
export function textOfParsed(body: unknown): string {
  let values = 0;
  const numbers: string[] = [];
  const text = JSON.stringify(body, function (this: Readonly<Record<string, unknown>>, name, value: unknown) {
    const given = this[name];
    values += 1;
    if (!isPlain(given)) {
      throw new ArgumentError(
        `Expected the parsed body of the request to be plain JSON, got ${got(given)} in it: set request.rawBody, or give idempotent() the option \`body\``,
      );
    }
    // 1e400 is read as Infinity, which is null in JSON.
    if (typeof given === "number" && (!Number.isFinite(given) || Object.is(given, -0))) {
      numbers.push(`${values}:${Object.is(given, -0) ? "-0" : given}`);
    }
    return value;
  });
  return numbers.length === 0 ? text : `${text}\n${numbers.join()}`;
}

function isPlain(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return !["function", "symbol", "bigint"].includes(typeof value);
  if (Array.isArray(value) || Object.prototype.toString.call(value) === "[object Date]") return true;
  const prototype: unknown = Object.getPrototypeOf(value);
  // Of any realm.
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

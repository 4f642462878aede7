/** The body of a request, read such that the handler can read it again. */
import type { HonoRequest } from "hono";
import { mediaType } from "../http/body.ts";
import { digestOf, digestOfParts } from "../http/names.ts";

const FORMS: ReadonlySet<string> = new Set(["multipart/form-data", "application/x-www-form-urlencoded"]);

export async function bodyDigestOf(request: HonoRequest): Promise<string> {
  const { bodyCache } = request;
  // Read as a form before: written anew, it would have another boundary each time.
  const [first] = Object.keys(bodyCache);
  if (first === "formData" && bodyCache.arrayBuffer === undefined) return await digestOfForm(await request.formData());
  const bytes = await request.arrayBuffer();
  const type = request.header("content-type");
  if (FORMS.has(mediaType(type))) keepForm(bodyCache, bytes, type!);
  return digestOf(new Uint8Array(bytes));
}

/** Hono before 4.13.8 forgets of what type it was, and finds no form in it. Made by the first who asks for it. */
function keepForm(bodyCache: HonoRequest["bodyCache"], bytes: ArrayBuffer, type: string): void {
  if (bodyCache.formData !== undefined) return;
  let form: Promise<FormData> | undefined;
  Object.defineProperty(bodyCache, "formData", {
    configurable: true,
    enumerable: true,
    get: () => (form ??= new Response(bytes, { headers: { "content-type": type } }).formData()),
    set: (given: typeof form) => {
      form = given;
    },
  });
}

async function digestOfForm(form: FormData): Promise<string> {
  const parts: string[] = [];
  for (const [name, value] of form) {
    if (typeof value === "string") parts.push("text", name, value);
    else parts.push("file", name, value.name, value.type, digestOf(new Uint8Array(await value.arrayBuffer())));
  }
  return digestOfParts(...parts);
}

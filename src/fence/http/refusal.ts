/** What a guard in front of HTTP decides about a request, independent of the framework. */
import { ArgumentError } from "../../contract/argument-error.ts";
import { checkLock, type Fenced, fenceCeiling } from "../fenced.ts";
import { FENCE_HEADER, readFenceHeader } from "../header.ts";
import { admit, type MarkStore } from "../marks.ts";
import { FenceRejectedError } from "../rejected.ts";

export interface HttpGuardOptions<R> {
  /** The lock that protects what the request changes, or the locks. The server decides, never the client. */
  readonly lock: string | readonly string[] | ((request: R) => string | readonly string[]);
  /**
   * Where the high-water marks are. `"in-transaction"`: nowhere here; the handler itself checks the fence
   * from `admittedFence(request)` in the transaction that writes, which is the only way without a gap.
   */
  readonly marks: MarkStore | "in-transaction";
  /**
   * The greatest fence that is taken for one; a greater one is answered with 400 and leaves no mark, because it would
   * close the guard to every later lease. Give `MAX_FENCE` where the fences come from elsewhere. @default {@link fenceCeiling}
   */
  readonly ceiling?: bigint | (() => bigint) | undefined;
}

/** An answer that any framework can send. */
export interface Refusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const admitted = new WeakMap<object, Fenced>();

/** What a guard let through, in the shape of a lease. */
class Admitted implements Fenced {
  readonly name: string;
  readonly fences: ReadonlyMap<string, bigint>;

  constructor(fences: ReadonlyMap<string, bigint>) {
    this.name = [...fences.keys()].join(", ");
    this.fences = fences;
  }

  get fence(): bigint {
    const [fence, ...others] = this.fences.values();
    if (fence !== undefined && others.length === 0) return fence;
    throw new TypeError(`A request under several locks has no single fence: use fenceFor() (${this.name})`);
  }
}

/** The fence that a guard let through with this request. Of several locks, pick one with `fenceFor`. */
export function admittedFence(request: object): Fenced {
  const fenced = admitted.get(request);
  if (fenced === undefined)
    throw new ArgumentError("Expected a request that a guard has admitted: is the guard in front of it?");
  return fenced;
}

/** Admits the request, or says how to refuse it. Rejects when the marks could not be reached: then it is neither admitted nor refused. */
export async function judge<R extends object>(
  options: HttpGuardOptions<R>,
  request: R,
  header: string | undefined,
): Promise<Refusal | undefined> {
  const locks = locksOf(options, request);
  if (header === undefined || header === "") return required(locks, "It is missing.");
  const offered = readFenceHeader(header);
  if (offered === undefined) return malformed();
  const ceiling = ceilingOf(options);
  const fences = new Map<string, bigint>();
  for (const name of locks) {
    const fence = offered.get(name);
    if (fence === undefined) return required(locks, `It has no fence of ${JSON.stringify(name)}.`);
    if (fence > ceiling) return implausible(name, fence, ceiling);
    fences.set(name, fence);
  }
  if (options.marks !== "in-transaction") {
    const refusal = await admitAll(options.marks, fences);
    if (refusal !== undefined) return refusal;
  }
  admitted.set(request, new Admitted(fences));
  return undefined;
}

/** How a refused fence is answered: 412 with the greater fence. */
export function rejection(error: FenceRejectedError): Refusal {
  const { lock, current, offered, code, message } = error;
  return {
    ...problem(error.statusCode, "A later lease has been here", message, {
      code,
      lock,
      current: current.toString(),
      offered: offered.toString(),
    }),
    headers: { ...PROBLEM, ...error.headers },
  };
}

function locksOf<R>({ lock }: HttpGuardOptions<R>, request: R): readonly string[] {
  const named = typeof lock === "function" ? lock(request) : lock;
  const locks = typeof named === "string" ? [named] : named;
  if (locks.length === 0) throw new ArgumentError("Expected `lock` to name at least one lock");
  for (const name of locks) checkLock(name);
  return locks;
}

function ceilingOf<R>({ ceiling = fenceCeiling }: HttpGuardOptions<R>): bigint {
  return typeof ceiling === "function" ? ceiling() : ceiling;
}

async function admitAll(marks: MarkStore, fences: ReadonlyMap<string, bigint>): Promise<Refusal | undefined> {
  try {
    for (const [name, fence] of fences) await admit(marks, { name, fence }, "http");
    return undefined;
  } catch (error) {
    if (error instanceof FenceRejectedError) return rejection(error);
    throw error;
  }
}

const PROBLEM = { "content-type": "application/problem+json", "cache-control": "no-store" } as const;

function required(locks: readonly string[], what: string): Refusal {
  const detail = `This request needs the header ${FENCE_HEADER} with the fence of ${locks.map((name) => JSON.stringify(name)).join(" and ")}. ${what}`;
  return problem(428, "A fence is required", detail);
}

function malformed(): Refusal {
  return problem(400, "Malformed fence", `Expected ${FENCE_HEADER} to look like invoice%3A42=17.`);
}

function implausible(name: string, fence: bigint, ceiling: bigint): Refusal {
  const detail = `No lease of ${JSON.stringify(name)} has fence ${fence}: by the clock of this server they are at most ${ceiling}. Nothing was remembered.`;
  return problem(400, "Implausible fence", detail);
}

function problem(status: number, title: string, detail: string, facts: Readonly<Record<string, string>> = {}): Refusal {
  return { status, headers: PROBLEM, body: JSON.stringify({ type: "about:blank", title, status, detail, ...facts }) };
}

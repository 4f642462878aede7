/**
 * once(): of all callers everywhere one does the work, and the others get what came of it, for as long as it is kept. Loaded by
 * the first call. What is kept and the end of the lease are one step of the store, so that no work begins after an outcome is kept.
 */
import { readAnswer } from "../contract/answer.ts";
import { ArgumentError, got } from "../contract/argument-error.ts";
import type { KeptOutcome } from "../contract/claim.ts";
import { OUTCOME_KEEP_MAX_MS, OUTCOME_KEEP_MIN_MS } from "../contract/claim.ts";
import { type Duration, toMs } from "../contract/duration.ts";
import { LockBackendError, quote } from "../contract/errors.ts";
import { clipped, HOLDER_MAX } from "../contract/foreign.ts";
import type { LossReason } from "../contract/loss.ts";
import type { ForgetOptions, OnceCodec, OnceOptions, OnceResult, OutcomeOptions, OutcomeState, Work } from "./api.ts";
import { askStore } from "./ask-store.ts";
import { attachLoss, type Call } from "./close.ts";
import type { Engine } from "./engine.ts";
import type { Inside } from "./inside.ts";
import { HeldLease } from "./lease.ts";
import { withoutLinger } from "./linger-option.ts";
import { answerMs, type CheckedOptions, checkName, checkObject, toQuerySpec } from "./options.ts";
import { decodeOutcome, encodeFailure, encodeValue, JSON_CODEC } from "./outcome-text.ts";
import { Scope } from "./reentry.ts";
import { checkedState } from "./snapshot.ts";
import { takeTraced } from "./traced.ts";

export async function once<T>(
  { engine, running, checked }: Inside,
  name: string,
  options: OnceOptions<T>,
  work: Work<T>,
): Promise<OnceResult<T>> {
  checkName(name);
  if (typeof work !== "function") throw new ArgumentError("Expected `once` to get a function as its last argument");
  const { keep, keepFailure, codec = JSON_CODEC, ...rest } = checkObject(options);
  checkCodec(codec);
  const keepMs = toKeepMs(keep, "keep");
  const keepFailureMs = keepFailure === undefined ? undefined : toKeepMs(keepFailure, "keepFailure");
  const usual = withoutLinger("once", rest, () => checked(rest));
  if (usual.mode === "shared" || usual.limit !== 1) {
    throw new ArgumentError('Expected neither `limit` nor `mode: "shared"` for once(): one caller does the work');
  }
  if (Scope.of(engine, name) !== undefined) {
    throw new ArgumentError(
      `Expected once() not to be called inside a function that holds lock ${quote(name)}: its work would be part of that function's`,
    );
  }
  assertKeeps(engine, name);
  const waits = usual.waitMs > 0;
  // Not passed on in memory: what is kept says the first fence of its lease, and that must be the one of the work.
  const mine: CheckedOptions = {
    ...usual,
    wantsOutcome: true,
    reusable: false,
    shareKey: `once ${usual.shareKey}`,
  };
  const call: Call = { name };
  let kept: () => Promise<OnceResult<T>>;
  running.calls.add(call);
  try {
    const untilMs = engine.clock.now() + (waits ? usual.waitMs : answerMs(usual));
    const take = engine.isTraced ? takeTraced : takePlain;
    const known = engine.hidesOutcome(name) ? await lookFor(engine, name, usual) : undefined;
    const waitMs = Math.max(1, untilMs - engine.clock.now());
    const taken = known ?? (await take(engine, name, mine, waits ? "queue" : "once", waitMs))!;
    if (!(taken instanceof HeldLease)) return replay(engine, name, taken, codec);
    kept = await runOnce(engine, taken, work, codec, keepMs, keepFailureMs);
  } finally {
    running.end(call);
  }
  // close() does not wait for this: it ends leases that are never released.
  return await kept();
}

const takePlain: typeof takeTraced = (engine, name, checked, waitMode, waitMs) =>
  engine.takeOrOutcome(name, checked, waitMode, waitMs);

/** What is kept, if the store says so in time. Without its word the call waits for its turn, and learns it then. */
async function lookFor(engine: Engine, name: string, usual: CheckedOptions): Promise<KeptOutcome | undefined> {
  const { backend, clock } = engine;
  const timeoutMs = Math.min(answerMs(usual), usual.waitMs > 0 ? usual.waitMs : Infinity);
  const ask = (): ReturnType<typeof backend.inspect> => backend.inspect(name);
  const state = await askStore(engine, "once()", { signal: usual.signal, timeoutMs }, ask, name).catch(() => undefined);
  const read = readAnswer({ granted: false, heldBy: [], outcome: state?.outcome }, clock.now());
  return typeof read === "object" && !read.granted ? read.outcome : undefined;
}

async function runOnce<T>(
  engine: Engine,
  lease: HeldLease,
  work: Work<T>,
  codec: OnceCodec<T>,
  keepMs: number,
  keepFailureMs: number | undefined,
): Promise<() => Promise<OnceResult<T>>> {
  let came: T;
  try {
    came = await Scope.run(engine, [lease], () => work(lease));
  } catch (error) {
    const failure = keepFailureMs === undefined ? undefined : { value: encodeFailure(error), keepMs: keepFailureMs };
    attachLoss(error, await lease.finish(failure).catch(() => undefined));
    throw error;
  }
  const { text, value } = encodeValue(came, codec);
  let loss: LossReason = { kind: "gone" };
  lease.onLost = (why) => void (loss = why);
  const ended = await lease.finish({ value: text, keepMs });
  return async () => {
    // Leases inside it may outlive the work, and nothing is kept before the last of them is released.
    const result = ended === undefined ? await lease.over() : "lost";
    const lost = result === "released" ? undefined : lease.lossFor(result === "lost" ? loss : { kind: "unkept" });
    if (lost === undefined) return { value, replayed: false, fence: lease.fence, at: new Date(engine.clock.wall()) };
    lost.result = came;
    throw lost;
  };
}

/** What another caller's work came to. Throws the failure that is kept. */
function replay<T>(engine: Engine, name: string, kept: KeptOutcome, codec: OnceCodec<T>): OnceResult<T> {
  const read = decodeOutcome(name, kept, codec);
  if ("error" in read) throw read.error;
  return { value: read.value, replayed: true, fence: kept.fence, at: new Date(engine.clock.wall() - kept.ageMs) };
}

export function assertKeeps({ backend }: Engine, name: string): void {
  const can = backend.can?.outcomes;
  if (can === true) return;
  const why = can ?? "it does not say that it keeps outcomes";
  throw new LockBackendError(
    backend.name,
    name,
    `Lock ${quote(name)}: the ${backend.name} store cannot keep what the work comes to (${why}). Use run(), or another store.`,
    { fatal: true },
  );
}

export async function outcome<T>(engine: Engine, name: string, options: OutcomeOptions<T>): Promise<OutcomeState<T>> {
  checkName(name);
  const { codec = JSON_CODEC, ...rest } = checkObject(options);
  checkCodec(codec);
  const asked = toQuerySpec(rest);
  assertKeeps(engine, name);
  const { backend } = engine;
  const found = await askStore(engine, "outcome()", asked, () => backend.inspect(name), name);
  const { held, outcome: kept } = checkedState(backend.name, found);
  if (kept !== undefined) {
    const { fence, holder, ageMs, remainingMs } = kept;
    const facts = {
      fence,
      holder: clipped(holder, HOLDER_MAX),
      at: new Date(engine.clock.wall() - ageMs),
      remainingMs,
    };
    const read = decodeOutcome(name, kept, codec);
    return "error" in read ? { state: "failed", ...facts, ...read } : { state: "done", ...facts, ...read };
  }
  const [first] = held;
  if (first === undefined) return { state: "none" };
  return { state: "running", fence: first.fence, holder: clipped(first.holder, HOLDER_MAX), heldMs: first.heldMs };
}

export async function forget(engine: Engine, name: string, options: ForgetOptions): Promise<boolean> {
  checkName(name);
  const { fence } = checkObject(options);
  if (typeof fence !== "bigint") throw new ArgumentError(`Expected \`fence\` to be a bigint, got ${got(fence)}`);
  assertKeeps(engine, name);
  const { backend } = engine;
  return (await askStore(engine, "forget()", toQuerySpec({}), () => backend.forget!(name, fence), name)) === true;
}

function checkCodec<T>(codec: OnceCodec<T>): void {
  if (typeof codec?.encode === "function" && typeof codec.decode === "function") return;
  throw new ArgumentError(`Expected \`codec\` to have the functions encode and decode, got ${got(codec)}`);
}

function toKeepMs(keep: Duration, option: string): number {
  if (keep === undefined)
    throw new ArgumentError(`Expected \`${option}\` to say how long the outcome is kept, got ${got(keep)}`);
  return toMs(keep, option, { minMs: OUTCOME_KEEP_MIN_MS, maxMs: OUTCOME_KEEP_MAX_MS });
}

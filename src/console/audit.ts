/** A line for every action, and for every try of one. */
import type { IncomingMessage } from "node:http";
import { types } from "node:util";
import { toPrintableJson } from "../contract/foreign.ts";
import { messageOf } from "../contract/errors.ts";
import { warn } from "../contract/warning.ts";
import { clean } from "../telemetry/clean.ts";
import type { AuditEntry, CheckedOptions } from "./options.ts";

export class Audit {
  readonly #options: Pick<CheckedOptions, "audit" | "clock">;

  constructor(options: Pick<CheckedOptions, "audit" | "clock">) {
    this.#options = options;
  }

  /** What the action did is done: a fault of the app's function is a warning. */
  write(request: IncomingMessage, facts: Omit<AuditEntry, "at" | "address">): void {
    const { audit = toStderr, clock } = this.#options;
    const at = new Date(clock.wall()).toISOString();
    try {
      const given: unknown = audit({ at, ...facts, address: request.socket?.remoteAddress });
      // One that is asynchronous may fail later, which would end the process.
      if (types.isPromise(given)) given.catch(failed);
    } catch (error) {
      failed(error);
    }
  }
}

function failed(error: unknown): void {
  warn("HOLDFAST_CONSOLE", clean(`holdfast/console: the audit failed: ${messageOf(error)}`));
}

function toStderr(entry: AuditEntry): void {
  process.stderr.write(`${toPrintableJson({ audit: "holdfast/console", ...entry })}\n`);
}

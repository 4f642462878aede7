/**
 * What happened inside the lock, section by section, and whether two were inside together.
 *
 * A section is five numbers: when it was asked for, entered and left, in ms of the machine's monotonic clock (the same for
 * all processes), the loop it belongs to, and its fence (0 where the library has none).
 */
import { jain, spread } from "./stats.mjs";

export const FIELDS = 5;

/** Grows as needed; pushing costs a few stores and no allocation in nearly all cases. */
export class SectionLog {
  #all = new Float64Array(FIELDS * 4096);
  #used = 0;

  push(askedMs, enteredMs, leftMs, loop, fence) {
    if (this.#used === this.#all.length) {
      const wider = new Float64Array(this.#all.length * 2);
      wider.set(this.#all);
      this.#all = wider;
    }
    const at = this.#used;
    this.#all[at] = askedMs;
    this.#all[at + 1] = enteredMs;
    this.#all[at + 2] = leftMs;
    this.#all[at + 3] = loop;
    this.#all[at + 4] = fence;
    this.#used = at + FIELDS;
  }

  get bytes() {
    return Buffer.from(this.#all.buffer, 0, this.#used * 8);
  }
}

/** Reads the logs of several processes into one list in the order of entry. */
export function merge(logs) {
  const all = [];
  logs.forEach((bytes, worker) => {
    const numbers = new Float64Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
    for (let at = 0; at < numbers.length; at += FIELDS) {
      const [askedMs, enteredMs, leftMs, loop, fence] = numbers.subarray(at, at + FIELDS);
      all.push({ worker, askedMs, enteredMs, leftMs, loop, fence });
    }
  });
  return all.sort((a, b) => a.enteredMs - b.enteredMs);
}

/** How often a section began before all earlier ones had ended, or with a fence that was not greater than theirs. */
export function violations(sections) {
  let lastLeftMs = -Infinity;
  let lastFence = 0;
  let found = 0;
  for (const { enteredMs, leftMs, fence } of sections) {
    if (enteredMs < lastLeftMs) found++;
    else if (fence > 0 && fence <= lastFence) found++;
    lastLeftMs = Math.max(lastLeftMs, leftMs);
    lastFence = Math.max(lastFence, fence);
  }
  return found;
}

/** From leaving to the next entry in another process, or with `anyone` by any other loop, in ms. */
export function handOvers(sections, anyone = false) {
  const gaps = [];
  for (let i = 1; i < sections.length; i++) {
    const [before, after] = [sections[i - 1], sections[i]];
    // Who asked only after the lock was free did not wait for it: that is no hand-over.
    const other = before.worker !== after.worker || (anyone && before.loop !== after.loop);
    if (other && after.askedMs < before.leftMs) gaps.push(after.enteredMs - before.leftMs);
  }
  return gaps;
}

/**
 * Throughput, waiting and fairness; only sections entered before `untilMs` count as done in time. `stuckMs`: how long those
 * had waited who were still waiting well after the end.
 */
export function summary(sections, loopsTotal, seconds, untilMs, stuckMs = []) {
  const counts = new Map();
  let done = 0;
  for (const { worker, loop, enteredMs } of sections) {
    if (enteredMs > untilMs) continue;
    done++;
    const who = `${worker}/${loop}`;
    counts.set(who, (counts.get(who) ?? 0) + 1);
  }
  const shares = [...counts.values(), ...Array.from({ length: loopsTotal - counts.size }, () => 0)];
  return {
    perSecond: done / seconds,
    waitMs: spread([...sections.map(({ askedMs, enteredMs }) => enteredMs - askedMs), ...stuckMs]),
    jain: jain(shares),
    starved: loopsTotal - counts.size,
    violations: violations(sections),
  };
}

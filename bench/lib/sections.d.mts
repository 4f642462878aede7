export interface Section {
  readonly worker: number;
  readonly askedMs: number;
  readonly enteredMs: number;
  readonly leftMs: number;
  readonly loop: number;
  readonly fence: number;
}
export const FIELDS: number;
export class SectionLog {
  push(askedMs: number, enteredMs: number, leftMs: number, loop: number, fence: number): void;
  get bytes(): Buffer;
}
export function merge(logs: readonly Buffer[]): Section[];
export function violations(sections: readonly Section[]): number;
export function handOvers(sections: readonly Section[], anyone?: boolean): number[];
export function summary(
  sections: readonly Section[],
  loopsTotal: number,
  seconds: number,
  untilMs: number,
  stuckMs?: readonly number[],
): {
  perSecond: number;
  waitMs: { p50: number; p99: number; max: number };
  jain: number;
  starved: number;
  violations: number;
};

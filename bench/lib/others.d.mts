export interface Machine {
  readonly busy: number;
  readonly all: number;
  readonly own: number;
}
export function readMachine(): Machine | undefined;
export function othersSince(before: Machine | undefined, now?: Machine): number;

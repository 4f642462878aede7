/** Judges a run of the tests: did every room keep to its budget? */
import { sum } from "./spent.ts";

/** In seconds. */
export interface Cost {
  /** Processor time, of the tests and of the servers that they start. Hardly grows on a busy machine. */
  readonly cpu: number;
  /** How long the room's test files took, one after the other. Depends on what ran beside them, so it is shown and not judged. */
  readonly time: number;
}

export interface FileCost extends Cost {
  /** From the root of the repository. */
  readonly path: string;
}

export interface Run {
  readonly files: readonly FileCost[];
  /** How long the whole run took. */
  readonly elapsed: number;
  /** Processor time that others used meanwhile, as a part of all there was. */
  readonly others: number;
}

export interface Verdict {
  readonly rooms: ReadonlyMap<string, Cost>;
  /** Others used so little of the machine that times mean something. */
  readonly calm: boolean;
  /** What went beyond its budget, each with what to do. */
  readonly broken: readonly string[];
}

/** Others may have used this part of the machine. */
const CALM = 0.1;
/**
 * Machines differ, and a core that shares its silicon with a busy neighbour needs up to half more for the same work. What is
 * dearer than its budget is shown in the table; what is dearer by this much fails the run.
 */
const TOLERANCE = 1.5;

/** Rooms are known by the beginning of a path; the longest counts. */
export function roomOf(path: string, budgets: Readonly<Record<string, Cost>>): string | undefined {
  return Object.keys(budgets)
    .filter((room) => path.startsWith(room))
    .toSorted((a, b) => b.length - a.length)[0];
}

export function judge(run: Run, budgets: Readonly<Record<string, Cost>>, mostElapsed: number): Verdict {
  const calm = run.others <= CALM;
  const byRoom = new Map<string, FileCost[]>();
  const broken: string[] = [];
  for (const file of run.files) {
    const room = roomOf(file.path, budgets);
    if (room === undefined) broken.push(`${file.path} is in no room: give it a budget in test/budget/rooms.ts`);
    else byRoom.set(room, [...(byRoom.get(room) ?? []), file]);
  }
  const rooms = new Map([...byRoom].map(([room, files]) => [room, costOf(files)]));
  for (const [room, cost] of rooms) {
    const budget = budgets[room] as Cost;
    if (cost.cpu <= budget.cpu * TOLERANCE) continue;
    const over = `${seconds(cost.cpu)} of processor time, of ${seconds(budget.cpu)}`;
    broken.push(`${room} took ${over}. Its dearest files: ${dearest(byRoom.get(room) ?? [])}`);
  }
  if (calm && run.elapsed > mostElapsed * TOLERANCE)
    broken.push(`all took ${seconds(run.elapsed)}, of ${seconds(mostElapsed)}`);
  return { rooms, calm, broken };
}

function costOf(files: readonly Cost[]): Cost {
  return { cpu: sum(files.map(({ cpu }) => cpu)), time: sum(files.map(({ time }) => time)) };
}

function dearest(files: readonly FileCost[]): string {
  const most = files.toSorted((a, b) => b.cpu + b.time - a.cpu - a.time).slice(0, 3);
  return most.map(({ path, cpu, time }) => `${path} (${seconds(cpu)} of processor time, ${seconds(time)})`).join(", ");
}

function seconds(number: number): string {
  return `${number < 10 ? number.toFixed(1) : Math.round(number)} s`;
}

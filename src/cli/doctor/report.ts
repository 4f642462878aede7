/** What a check of a store comes to: facts, findings, and what may be promised on their ground. */

/** `broken`: a promise does not hold here. `weak`: it holds, but not as well as it could. */
export type Level = "good" | "weak" | "broken" | "unknown";

export interface Finding {
  readonly level: Level;
  /** A short name for scripts, such as `hard-links`. */
  readonly check: string;
  /** What was found, in a sentence, and what to do about it. */
  readonly text: string;
}

export interface Report {
  readonly backend: string;
  readonly facts: Readonly<Record<string, string | number | boolean>>;
  readonly findings: readonly Finding[];
  /** What this deployment promises. */
  readonly promises: readonly string[];
  /** What it does not, however well it runs. */
  readonly limits: readonly string[];
}

export interface ExamineOptions {
  readonly url: string;
  readonly selfTest: boolean;
  readonly init: boolean;
  /** Shows the user what takes long. */
  readonly say: (line: string) => void;
}

export type Examine = (options: ExamineOptions) => Promise<Report>;

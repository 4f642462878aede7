/** A real pseudo-terminal with a shell in it, through tmux: keys go in, the screen comes out. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";

import { type Bench, MAIN, until } from "./harness.ts";

export class Terminal {
  readonly #socket: string;

  constructor(bench: Bench, name: string, { columns = 130, rows = 24 }: { columns?: number; rows?: number } = {}) {
    this.#socket = join(bench.dir, `tmux-${name}`);
    const env = { HOLDFAST_URL: bench.url, HOLDFAST_STATE_DIR: bench.path("claims"), PS1: "$ " };
    const settings = Object.entries(env).flatMap(([variable, value]) => ["-e", `${variable}=${value}`]);
    const size = ["-x", String(columns), "-y", String(rows)];
    this.#tmux(
      "-f",
      "/dev/null",
      "new-session",
      "-d",
      ...size,
      ...settings,
      "-c",
      bench.dir,
      "bash --norc --noprofile",
    );
    // Short to type: the terminal echoes what is typed, and the tests look for what is answered.
    this.type(`holdfast() { ${process.execPath} ${MAIN} "$@"; }; unset NO_COLOR; clear`);
  }

  /** Types a line and Enter. */
  type(line: string): void {
    this.#tmux("send-keys", "-l", line);
    this.keys("Enter");
  }

  keys(...keys: readonly string[]): void {
    this.#tmux("send-keys", ...keys);
  }

  /** What is on the screen; with `colours`, its escape sequences too. */
  screen({ colours = false }: { colours?: boolean } = {}): string {
    return this.#tmux("capture-pane", "-p", ...(colours ? ["-e"] : []));
  }

  async shows(pattern: RegExp, about: string = String(pattern)): Promise<RegExpExecArray> {
    try {
      return await until(() => pattern.exec(this.screen()) ?? undefined, about);
    } catch (error) {
      throw new Error(`${String(error)}; the screen shows:\n${this.screen()}`);
    }
  }

  async lacks(pattern: RegExp): Promise<void> {
    await until(() => !pattern.test(this.screen()), `the screen no longer shows ${pattern}`);
  }

  /** A variable of tmux's own view of the terminal, such as `alternate_on`. */
  state(variable: string): string {
    return this.#tmux("display-message", "-p", `#{${variable}}`).trim();
  }

  resize(columns: number, rows: number): void {
    this.#tmux("resize-window", "-x", String(columns), "-y", String(rows));
  }

  close(): void {
    try {
      this.#tmux("kill-server");
    } catch {
      // It has ended by itself.
    }
  }

  #tmux(...args: readonly string[]): string {
    try {
      return execFileSync("tmux", ["-S", this.#socket, ...args], {
        encoding: "utf8",
        stdio: ["ignore", "pipe", "pipe"],
      });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      throw new Error("These tests type into a real terminal. Install tmux.");
    }
  }
}

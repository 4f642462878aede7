/** The whole screen of a terminal, borrowed: given back as it was on every way out. */
import { emitKeypressEvents, type Key } from "node:readline";

const ENTER = "\u001b[?1049h\u001b[?25l\u001b[?7l";
const LEAVE = "\u001b[?7h\u001b[?25h\u001b[?1049l";
const HOME = "\u001b[H";
const CLEAR_TO_LINE_END = "\u001b[K";
const CLEAR_TO_SCREEN_END = "\u001b[J";

export interface Screen {
  readonly columns: number;
  readonly rows: number;
  draw(lines: readonly string[]): void;
  /** Gives the terminal back. Safe to call twice. */
  restore(): void;
}

export interface ScreenOptions {
  readonly stdin: NodeJS.ReadStream;
  readonly stdout: NodeJS.WriteStream;
  readonly onKey: (name: string, text: string | undefined) => void;
  readonly onResize: () => void;
}

export function takeScreen({ stdin, stdout, onKey, onResize }: ScreenOptions): Screen {
  let taken = true;
  const keypress = (text: string | undefined, key: Key): void => {
    if (key.ctrl === true && key.name !== undefined) onKey(`ctrl-${key.name}`, undefined);
    else onKey(key.name ?? text ?? "", text);
  };
  const restore = (): void => {
    if (!taken) return;
    taken = false;
    process.off("exit", restore);
    stdin.off("keypress", keypress);
    stdout.off("resize", onResize);
    try {
      stdin.setRawMode(false);
      stdin.pause();
      stdout.write(LEAVE);
    } catch {
      // The terminal itself is gone.
    }
  };
  // The last way out, also after an uncaught error.
  process.on("exit", restore);
  emitKeypressEvents(stdin, { escapeCodeTimeout: 50 } as never);
  stdin.setRawMode(true);
  stdin.resume();
  stdin.on("keypress", keypress);
  stdout.on("resize", onResize);
  stdout.write(ENTER);
  return {
    get columns() {
      return stdout.columns || 80;
    },
    get rows() {
      return stdout.rows || 24;
    },
    // Each line is cleared before it is written: after it, the cursor may stand on its last character.
    draw: (lines) => {
      if (taken) stdout.write(HOME + lines.map((line) => CLEAR_TO_LINE_END + line).join("\r\n") + CLEAR_TO_SCREEN_END);
    },
    restore,
  };
}

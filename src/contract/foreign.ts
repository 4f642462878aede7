/**
 * Text that others wrote: holders, metas and reasons come from a store that many may write to. It is cut to what our own
 * doors let in (snapshot.ts), and made harmless where it is shown.
 */

/** UTF-16 units. */
export const HOLDER_MAX = 200;
/** As JSON. */
export const META_BYTES_MAX = 4096;
/** UTF-16 units. */
export const REASON_MAX = 1000;

// Control characters, the marks that reverse the direction of text, and separators of lines: all may drive a terminal or a log.
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;
const IN_JSON = /[\u007f-\u009f\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Shows what cannot be printed as an escape, so that a name or a reason from the store cannot move the cursor. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (char) => {
    const code = char.codePointAt(0) ?? 0;
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
  });
}

/** JSON that is safe to print: what JSON itself leaves as it is, such as U+009B or U+202E, is escaped. A bigint becomes a string. */
export function toPrintableJson(value: unknown, indent?: number): string {
  const json = JSON.stringify(
    value,
    (_, field: unknown) => (typeof field === "bigint" ? field.toString() : field),
    indent,
  );
  // They can only stand inside strings, so the document stays the same.
  return json.replace(IN_JSON, (char) =>
    Array.from({ length: char.length }, (_, i) => `\\u${char.charCodeAt(i).toString(16).padStart(4, "0")}`).join(""),
  );
}

/** Cut to `max` UTF-16 units, with an ellipsis where something is missing. */
export function clipped(text: string, max: number): string {
  if (text.length <= max) return text;
  const cut = text.slice(0, max - 1);
  // Not in the middle of a character.
  return `${/[\ud800-\udbff]$/.test(cut) ? cut.slice(0, -1) : cut}…`;
}

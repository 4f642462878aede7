/** Prometheus's text format, version 0.0.4, which all that scrape can read. */
import type { Family, Sample } from "./families.ts";

export const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

export function toText(families: readonly Family[]): string {
  return families.map(familyText).join("");
}

function familyText({ name, help, type, samples }: Family): string {
  const head = `# HELP ${name} ${escaped(help)}\n# TYPE ${name} ${type}\n`;
  return head + samples.map(sampleText).join("");
}

function sampleText({ name, labels, value }: Sample): string {
  const pairs = Object.entries(labels).map(
    ([label, text]) => `${label}="${escaped(String(text)).replaceAll('"', '\\"')}"`,
  );
  return `${name}${pairs.length === 0 ? "" : `{${pairs.join(",")}}`} ${value}\n`;
}

/** In a help text only these two; in a label's value the quote, too. */
function escaped(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}

/** The report: one HTML file that needs nothing else, with a picture of every play. */
import type { Verdict } from "../judge.ts";
import type { Scenario } from "../scenarios/scenario.ts";
import { escapeHtml } from "./escape.ts";
import { STYLE } from "./style.ts";
import { drawTimeline } from "./timeline.ts";

const WIDE = 1080;
const NARROW = 350;

export interface PageFacts {
  /** When it was made, for people. */
  readonly date: string;
  /** The command that makes it again. */
  readonly command: string;
}

/** Writes the whole page. Verdicts of one scenario stand together, in the order given. */
export function writePage(verdicts: readonly Verdict[], facts: PageFacts): string {
  const scenarios = [...new Set(verdicts.map(({ result }) => result.scenario))];
  const bad = verdicts.filter(({ against }) => against.length > 0).length;
  const sum = bad === 0 ? "every verdict is as promised" : `${bad} of ${verdicts.length} verdicts are not as promised`;
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>Holdfast lab: ${escapeHtml(sum)}</title><style>${STYLE}</style></head><body>
<svg width="0" height="0" style="position:absolute;width:0;height:0" aria-hidden="true"><defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" style="fill:var(--card);opacity:.55"/><line x1="0" y1="0" x2="0" y2="6" style="stroke:var(--soft);stroke-width:2"/></pattern></defs></svg>
<main><h1>What a lock does when things break</h1>
<p class="lead">${verdicts.length === 1 ? "1 play" : `${verdicts.length} plays`} with real servers and real processes; ${escapeHtml(sum)}.</p>
<p class="meta">Holdfast · ${escapeHtml(facts.date)} · <code>${escapeHtml(facts.command)}</code></p>
<p>Every client writes twice: once to a register that takes any write, once to one whose guard refuses old fences. So each picture shows the same fault with fencing off and with fencing on.</p>
${legend()}
${matrix(scenarios, verdicts)}
${scenarios
  .map((scenario) =>
    card(
      scenario,
      verdicts.filter(({ result }) => result.scenario === scenario),
    ),
  )
  .join("\n")}
</main></body></html>
`;
}

function legend(): string {
  const item = (drawn: string, words: string): string => `<li><svg viewBox="0 0 34 16">${drawn}</svg>${words}</li>`;
  return `<ul class="legend">${[
    item(
      '<rect class="belief c0" x="1" y="2" width="32" height="12" rx="4"/>',
      "a client believes that it holds the lock",
    ),
    item('<rect class="sleep" x="1" y="2" width="32" height="12" rx="4"/>', "stopped, or not to be reached"),
    item('<rect class="truth c0" x="1" y="5" width="32" height="6" rx="3"/>', "the store says so"),
    item('<rect class="overlap" x="1" y="2" width="32" height="12" rx="4"/>', "two believe at once"),
    item('<g class="mark accepted"><circle cx="17" cy="8" r="6"/></g>', "write accepted"),
    item('<g class="mark stale"><circle cx="17" cy="8" r="6"/></g>', "stale write accepted: damage"),
    item('<g class="mark refused"><circle cx="17" cy="8" r="6"/></g>', "stale write refused"),
    item('<g class="mark fault"><circle cx="17" cy="8" r="6"/></g>', "a fault"),
  ].join("")}</ul>`;
}

function matrix(scenarios: readonly Scenario[], verdicts: readonly Verdict[]): string {
  const backends = [...new Set(verdicts.map(({ result }) => result.stage.backend))];
  const cell = (scenario: Scenario, backend: string): string => {
    const verdict = verdicts.find(({ result }) => result.scenario === scenario && result.stage.backend === backend);
    if (verdict === undefined) return "<td></td>";
    const { tone, words } = summary(verdict);
    return `<td><span class="dot ${tone}"></span>${escapeHtml(words)}</td>`;
  };
  const rows = scenarios.map(
    (scenario) =>
      `<tr><td><a href="#${scenario.id}">${escapeHtml(scenario.id)}</a></td>${backends.map((backend) => cell(scenario, backend)).join("")}</tr>`,
  );
  return `<div class="card"><div class="scroll"><table><thead><tr><th>scenario</th>${backends.map((backend) => `<th>${backend}</th>`).join("")}</tr></thead><tbody>${rows.join("")}</tbody></table></div></div>`;
}

type Tone = "good" | "warn" | "bad";

function summary({ against, facts }: Verdict): { readonly tone: Tone; readonly words: string } {
  if (against.length > 0) return { tone: "bad", words: "not as promised" };
  if (facts.overlapMs > 0) return { tone: "warn", words: "two believed; fence holds" };
  if (facts.registers.plain.stale > 0) return { tone: "good", words: "kept; guard refused" };
  return { tone: "good", words: "kept" };
}

function card(scenario: Scenario, verdicts: readonly Verdict[]): string {
  const [first, ...others] = verdicts;
  if (first === undefined) return "";
  return `<section class="card" id="${scenario.id}"><h2>${escapeHtml(scenario.title)}</h2>
<p>${escapeHtml(scenario.story)}</p>
<p class="source">${escapeHtml(scenario.source)} · <code>holdfast lab run ${scenario.id}</code></p>
${play(first)}
${others.map((verdict) => `<details><summary>${verdict.result.stage.backend} ${chip(summary(verdict).tone, summary(verdict).words)}</summary>${play(verdict)}</details>`).join("\n")}
</section>`;
}

function chip(tone: Tone | "", words: string): string {
  return `<span class="chip ${tone}">${escapeHtml(words)}</span>`;
}

function play(verdict: Verdict): string {
  const wide = drawTimeline(verdict.result, WIDE);
  const narrow = drawTimeline(verdict.result, NARROW);
  const lines = wide.moments.map(
    ({ number, atMs, mark, text }) =>
      `<li class="${mark}"><span class="n">${number}</span><span class="t">${(atMs / 1000).toFixed(2)} s</span><span>${escapeHtml(text)}</span></li>`,
  );
  return `<div class="chips">${chips(verdict).join("")}</div>
${wide.svg.replace("<svg ", '<svg class="wide" ')}${narrow.svg.replace("<svg ", '<svg class="narrow" ')}
<ol class="moments">${lines.join("")}</ol>`;
}

function chips({ result, facts, against }: Verdict): readonly string[] {
  const { plain, guarded } = facts.registers;
  const because = result.scenario.outcomes[result.stage.backend]?.because;
  return [
    chip("", `${result.stage.backend}, ttl ${result.ttlMs / 1000} s`),
    facts.overlapMs > 0
      ? chip(
          "warn",
          `two believed at once for ${Math.round(facts.overlapMs)} ms${because === undefined ? "" : `: ${because}`}`,
        )
      : chip("good", "never two who believed at once"),
    plain.stale > 0
      ? chip("bad", `fencing off: ${plain.stale} stale write accepted`)
      : chip("good", "fencing off: no stale write"),
    guarded.refused > 0
      ? chip("good", `fencing on: ${guarded.refused} stale write refused`)
      : chip("good", "fencing on: nothing to refuse"),
    against.length === 0 ? chip("good", "as promised") : chip("bad", `not as promised: ${against.join("; ")}`),
  ];
}

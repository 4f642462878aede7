/** Reads what messages say. Only their format is checked here: the claim that one is about checks whether it is true. The layouts are in wire.ts. */
import { reader } from "./columns.ts";
import { type Run, runOf } from "./replies.ts";
import { GRANT, LIMIT, MARK, NEWS, WORD } from "./wire.ts";

/** What a message says of one claim, and what proves it. */
export interface Sealed {
  readonly shown: string;
  readonly text: string;
  readonly seal: string;
}

/** What a message says of a grant. */
export interface News {
  readonly fences: Run;
  /** False: the grant must be confirmed before it is believed. */
  readonly sure: boolean;
  /** The identity of the server that granted it; "" without a quarantine. */
  readonly by: string;
}

interface Grant extends Sealed {
  readonly news: News;
}

export interface Message {
  readonly grants: readonly Grant[];
  /** A lease that was ended by force. */
  readonly forced: Sealed | undefined;
  /** Leases that others wait for. */
  readonly wanted: readonly Sealed[];
  /** Waiting claims whose lock has an outcome. */
  readonly done: readonly Sealed[];
}

const grant = reader(GRANT, "shown", "text", "sure", "fence", "more", "by", "seal");
const one = reader(NEWS, "shown", "text", "seal");

const NOTHING: Message = { grants: [], forced: undefined, wanted: [], done: [] };

export function readMessage(text: string): Message {
  if (text.length > LIMIT.message) return NOTHING;
  if (text.startsWith(WORD.granted)) return { ...NOTHING, grants: toGrants(text.slice(WORD.granted.length)) };
  if (text.startsWith(WORD.wanted)) return { ...NOTHING, wanted: toNews(text.slice(WORD.wanted.length), MARK.wanted) };
  if (text.startsWith(WORD.finished)) return { ...NOTHING, done: toNews(text.slice(WORD.finished.length), MARK.done) };
  if (!text.startsWith(WORD.forced)) return NOTHING;
  return { ...NOTHING, forced: toNews(text.slice(WORD.forced.length), MARK.forced)[0] };
}

function toGrants(text: string): readonly Grant[] {
  const grants: Grant[] = [];
  // One more than there are grants, because the last may say that they are wanted. 0.1 skips what is not a grant.
  const entries = text.split(",", LIMIT.grants + 1);
  const hints = entries.filter((entry) => entry.startsWith(MARK.wanted));
  const isWanted = (shown: string): boolean => hints.some((hint) => hint === MARK.wanted || hint.slice(1) === shown);
  for (const entry of entries.slice(0, LIMIT.grants)) {
    const found = grant.pattern.exec(entry);
    if (found === null) continue;
    const { at } = grant;
    const sealed = toSealed(found, at);
    const fences = runOf(found[at.fence] as string, found[at.more] as string, isWanted(sealed.shown));
    if (fences === undefined) continue;
    grants.push({ ...sealed, news: { fences, sure: found[at.sure] === MARK.sure, by: found[at.by] as string } });
  }
  return grants;
}

/** Each says the same of another claim. */
function toNews(text: string, mark: string): readonly Sealed[] {
  return text.split(",", LIMIT.news).flatMap((entry) => {
    const found = one.pattern.exec(entry);
    return found === null || found[one.at.text] !== mark ? [] : [toSealed(found, one.at)];
  });
}

function toSealed(found: RegExpExecArray, at: Readonly<Record<keyof Sealed, number>>): Sealed {
  return { shown: found[at.shown] as string, text: found[at.text] as string, seal: found[at.seal] as string };
}

// What the times at which processes were inside of a lock say: overlaps, fences in the wrong order, who was served, and how long hand-overs took.

/** A section that was never left, or whose lease was over before its end, proves nothing about what came during it. */
export function judge(workers, limit = 1) {
  const all = workers.flatMap(({ sections }) => sections).sort((a, b) => (a.from < b.from ? -1 : 1));
  const whole = all.filter(({ to, lost }) => to !== undefined && lost !== true);
  const survivors = workers.filter(({ killed }) => !killed);
  return {
    ours: whole.filter(({ side }) => side === "ours").length,
    theirs: whole.filter(({ side }) => side === "theirs").length,
    fewest: Math.min(...survivors.map(({ sections }) => sections.length)),
    kills: workers.length - survivors.length,
    lost: all.filter(({ lost }) => lost === true).length,
    ...(limit === 1 ? onOneLock(all, whole) : onPermits(whole, limit)),
    errors: survivors.map(({ errors }) => errors).filter((text) => text !== ""),
  };
}

function onOneLock(all, whole) {
  const handOvers = { toOurs: [], toTheirs: [] };
  let [overlaps, unordered] = [0, 0];
  // Until when a process was inside, and until when one that was alone.
  let [inside, alone, fence] = [0n, 0n, 0n];
  for (const [at, section] of whole.entries()) {
    const isAlone = section.mode === "exclusive";
    if (section.from < (isAlone ? inside : alone)) overlaps++;
    if (section.fence !== undefined && section.fence <= fence) unordered++;
    fence = section.fence ?? fence;
    if (section.to > inside) inside = section.to;
    if (isAlone && section.to > alone) alone = section.to;
    const next = whole[at + 1];
    if (next === undefined || (!isAlone && next.mode === "shared") || next.from < inside) continue;
    // One that was killed inside held the lock until its ttl was over.
    if (all[all.indexOf(section) + 1] !== next) continue;
    note(handOvers, section, next);
  }
  return { overlaps, unordered, handOvers };
}

/** Of a semaphore: an overlap is one who came in while as many were inside as may be. */
function onPermits(whole, limit) {
  const handOvers = { toOurs: [], toTheirs: [] };
  let overlaps = 0;
  let inside = [];
  for (const section of whole) {
    const left = inside.filter(({ to }) => to <= section.from);
    // The last one to leave made room, if there was none before.
    const last = left.sort((a, b) => (a.to < b.to ? -1 : 1)).at(-1);
    if (left.length === 1 && inside.length === limit) note(handOvers, last, section);
    inside = inside.filter(({ to }) => to > section.from);
    if (inside.length >= limit) overlaps++;
    inside.push(section);
  }
  return { overlaps, unordered: 0, handOvers };
}

/** Where the next one had waited, and is of the other side. */
function note(handOvers, section, next) {
  if (next.wanted >= section.to || next.side === section.side) return;
  handOvers[next.side === "ours" ? "toOurs" : "toTheirs"].push(Number(next.from - section.to) / 1e6);
}

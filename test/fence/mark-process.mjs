// One of several processes that raise the same mark: node mark-process.mjs FOLDER SEED [report-each].
// Sends its parent the answers, at the end or one by one.
import { fileMarks } from "holdfast/fence/file";

const [folder, seed, report] = process.argv.slice(2);
const marks = fileMarks(folder);
const admissions = [];
let state = Number(seed);

for (let step = 0; step < 150; step++) {
  state = (state * 48_271) % 2_147_483_647;
  // Rising on the whole, but often behind what another process has brought meanwhile.
  const fence = 2n ** 60n + BigInt(Math.floor(step / 3) + (state % 8));
  const startedAt = process.hrtime.bigint();
  const mark = await marks.advance("a", fence);
  if (report === "report-each") process.send({ mark });
  admissions.push({ fence, mark, startedAt, endedAt: process.hrtime.bigint() });
}

if (report === undefined) process.send(admissions);
process.disconnect();

// An invoice is made once. On a platform that freezes functions nothing is renewed: the ttl is longer than the function may take.
import { locks } from "../../../lib/locks";

export const maxDuration = 30;

export async function POST(_request: Request, { params }: { params: Promise<{ id: string }> }): Promise<Response> {
  const { id } = await params;
  const { value, replayed } = await (
    await locks()
  ).once(`invoice:${id}`, { keep: "24h", renew: false, ttl: "40s" }, async (lease) => {
    // Before a step that must not be done twice: one confirmed renewal.
    await lease.extend();
    return { invoice: id, fence: String(lease.fence), pid: process.pid };
  });
  return Response.json({ ...value, replayed });
}

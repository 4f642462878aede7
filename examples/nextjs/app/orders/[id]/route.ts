// One change of an order at a time: a second request gets 409 at once.
import { locks } from "../../../lib/locks";

export async function POST(_request: Request, { params }: { params: Promise<{ id: string }> }): Promise<Response> {
  const { id } = await params;
  const turn = await (
    await locks()
  ).tryRun(`order:${id}`, async ({ fence, signal }) => {
    await new Promise((resolve) => setTimeout(resolve, 300));
    return { fence: String(fence), lost: signal.aborted };
  });
  if (turn.ran) return Response.json(turn.value);
  return Response.json({ message: "busy, try again" }, { status: 409, headers: { "retry-after": "1" } });
}

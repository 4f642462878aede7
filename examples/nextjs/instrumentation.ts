// Next calls this once in each server process, before the first request: a store that is wrong ends the start, and not a request.
export async function register(): Promise<void> {
  // It is compiled for the Edge runtime, too, which has no sockets, files or threads, and so no locks.
  if (process.env.NEXT_RUNTIME !== "nodejs") return;
  const { closeOnSignals } = await import("holdfast");
  const { locks } = await import("./lib/locks");
  // Where the locks are closed when the server stops. Next ends its requests at the same time.
  closeOnSignals(await locks(), { grace: "10s" });
}

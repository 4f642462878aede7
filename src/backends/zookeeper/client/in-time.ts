/** Waiting for an end, good or bad, but not for ever. */

/** `false`: it rejected, or it did not settle within `ms`. */
export async function inTime(promise: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, ms, false);
  });
  const done = promise.then(
    () => true,
    () => false,
  );
  const isDone = await Promise.race([done, limit]);
  clearTimeout(timer);
  return isDone;
}

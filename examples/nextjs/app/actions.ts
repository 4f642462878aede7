"use server";

import { locks } from "../lib/locks";

// A form that is sent twice pays once.
export async function pay(form: FormData): Promise<void> {
  const order = form.get("order");
  // Never a lock that is called "payment:null".
  if (typeof order !== "string" || order === "") throw new TypeError("no order");
  await (
    await locks()
  ).once(`payment:${order}`, { keep: "24h" }, async () => {
    console.log(`charging ${order}`);
  });
}

/** What the errors of Redis mean here: unknown, or fatal. */
import { type LayoutErrors, layoutErrors } from "../redis/layouts/errors.ts";

export const errors: LayoutErrors = layoutErrors(
  "redisson",
  "Locks of Redisson",
  "one of its keys holds something of another type, and was left untouched: another program uses it. Choose another name or `prefix`, or `layout=plain` if the key is a string lock",
);

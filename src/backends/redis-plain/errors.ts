/** What the errors of Redis mean here: unknown, or fatal. */
import { type LayoutErrors, layoutErrors } from "../redis/layouts/errors.ts";

export const errors: LayoutErrors = layoutErrors(
  "redis-plain",
  "Plain locks in Redis",
  "its key holds something that is no string, and was left untouched: another program uses it. Choose another name or `prefix`, or `layout=redisson` if the key is a hash of Redisson",
);

/** Where each code is explained: one address for all, so that another site is a change of one line. */

const PAGES = "https://holdfast.github.io/holdfast/errors/";

/** The page of a code, such as `ERR_LOCK_TIMEOUT`. */
export function helpFor(code: string): string {
  return PAGES + code;
}

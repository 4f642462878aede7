/** Lists that nearly always have at most one item: what a Set or splice() would cost is more than the rest of an acquire. */

/** Takes one item out of a list that mostly has no other. `false`: it was not there. */
export function remove<T>(list: T[], item: T): boolean {
  // splice() would allocate.
  if (list.at(-1) === item) {
    list.pop();
    return true;
  }
  const index = list.indexOf(item);
  if (index >= 0) list.splice(index, 1);
  return index >= 0;
}

/** Lists of mostly one item, where a Set would cost more than it saves. */

/** The list with the item: the same one, or a new one of just that size. push() makes room for sixteen more in an empty list. */
export function added<T>(list: T[], item: T): T[] {
  if (list.length === 0) return [item];
  list.push(item);
  return list;
}

/** Takes one item out. `false`: it was not there. */
export function remove<T>(list: T[], item: T): boolean {
  // Mostly it is the only one, and splice() would allocate.
  if (list.at(-1) === item) {
    list.pop();
    return true;
  }
  const place = list.indexOf(item);
  if (place >= 0) list.splice(place, 1);
  return place >= 0;
}
